"""Reports: one offline HTML file, with its figures also as SVG and PNG.

    report = Report("Title", "What was found.", [Section("Curves", figure=figure)], facts={...})
    write(report, folder)             # folder/report.html, folder/figures/curves.svg, ...
    write(of_result(result), folder)  # the report of one run

The page has no script and asks the network for nothing, and its Content-Security-Policy forbids both.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
