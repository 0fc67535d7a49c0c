"""Jobs: a configuration and a table become a run, its predictions and its report, without code.

    job.json          the configuration, resolved; how the sampler was chosen; sums of the files below
    data.safetensors  the rows, ready for the model: a run needs nothing outside its directory
    start.safetensors where the chains start, after a plan
    chains/           the run directory of `vr.sample`
    predictions.csv, findings.json, report.html, figures/

Nothing in such a directory names code: a model of the user's own is given again to go on.
"""

from vrsgmcmc.cli.jobs.choose_sampler import Choice, choose
from vrsgmcmc.cli.jobs.directory import Job, create, is_job, load, save, verify
from vrsgmcmc.cli.jobs.execute import rehearse, run
from vrsgmcmc.cli.jobs.predictions import Findings, audited, examine, write
from vrsgmcmc.cli.jobs.problem import Problem, make
from vrsgmcmc.cli.jobs.user_model import load_function

__all__ = [
    "Choice",
    "Findings",
    "Job",
    "Problem",
    "audited",
    "choose",
    "create",
    "examine",
    "is_job",
    "load",
    "load_function",
    "make",
    "rehearse",
    "run",
    "save",
    "verify",
    "write",
]
