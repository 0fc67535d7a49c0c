"""Jobs: a configuration and a table become a run, its predictions and its report, without code.

    job.json          the configuration; the recipe, which says what was done to the table; the
                      settings of the sampler; sums of the files below
    data.safetensors  the rows, ready for the model: a run needs nothing outside its directory
    chains/           the run directory of `vr.sample`, with its decision and its accuracy
    predictions.csv, findings.json, report.html, figures/
    findings.sha256   sums of these, written last

Nothing in such a directory names code: to resume a model of one's own, the user names it again.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
