"""Reports: one offline HTML file, with its figures also as SVG and PNG.

    report = Report("Title", "What was found.", [Section("Curves", figure=figure)], facts={...})
    write(report, folder)             # folder/report.html, folder/figures/curves.svg, ...
    write(of_result(result), folder)  # the report of one run

The page has no script and asks the network for nothing, and its Content-Security-Policy forbids both.
"""

from vrsgmcmc.reports.calibration import Predictions, Probabilities
from vrsgmcmc.reports.page import Claim, Report, Section, Table
from vrsgmcmc.reports.run import of_result
from vrsgmcmc.reports.writer import write

__all__ = [
    "Claim",
    "Predictions",
    "Probabilities",
    "Report",
    "Section",
    "Table",
    "of_result",
    "write",
]
