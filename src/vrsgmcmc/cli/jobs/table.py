"""From a configuration to its rows, without JAX: a bad table is refused at once."""

from vrsgmcmc.datasets import tables
from vrsgmcmc.datasets.tables import Design

from ..configuration import names_code
from ..keys import MODELS, Config

MOST_PARAMETERS = 10**7  # of a model on a table: every one has a name
TASKS = {"classification": "softmax", "regression": "linear"}  # a model with such a target
LEAST_CLASSES = {"softmax": 3, "ordinal": 3}


def read(config: Config) -> Design:
    """The rows of a configuration as numbers, with what was done to them."""
    free = config.model is not None and (config.model == "mlp" or names_code(config.model))
    model = TASKS.get(config.task or "", "") if free else config.model or ""
    design = tables.treat(
        config.data,
        config.target or "",
        formula=config.formula or "",
        features=config.features,
        model=model,
        levels=config.levels,
        missing=config.missing or "",
        na=config.na,
        test_fraction=config.test_fraction,
        seed=config.seed,
    )
    if free:  # the sentence about the target names the model of another kind
        note = design.notes[0].rpartition(" Model: ")[0]
        notes = (note, *design.notes[1:])
        test = None if design.test is None else design.test._replace(notes=notes)
        design = design._replace(notes=notes, test=test)
    check_model(config, design)
    check_dimension(config, design)
    return design


def check_model(config: Config, design: Design) -> None:
    """Refuse a model that this target is not for."""
    target, model = design.target, config.model
    if model == "mlp" and target.kind == "count":
        raise ValueError(
            f"target {target.name!r} is a count, and mlp is for classes or numbers. Say --task "
            "regression, or choose --model poisson or negative_binomial."
        )
    if design.groups and (model == "mlp" or model not in (None, *MODELS)):
        raise ValueError(
            f"the model {model} has no group effects. Leave (1 | {design.groups[0].name}) out."
        )
    if model in LEAST_CLASSES and len(target.labels) < LEAST_CLASSES[model]:
        fits = {"number": "linear or robust", "count": "poisson or negative_binomial"}
        what = f"is a {target.kind}" if target.kind in fits else "has two classes"
        raise ValueError(
            f"target {target.name!r} {what}, and {model} is for three classes or more. Use --model "
            f"{fits.get(target.kind, 'logistic')}."
        )


def check_dimension(config: Config, design: Design) -> None:
    """Refuse a model that is too large, before anything of its size is made."""
    d, classes = len(design.columns), len(design.target.labels)
    outputs = max(1, classes - 1)
    count = (d + 1) * outputs + sum((1 + len(group.levels)) * outputs for group in design.groups)
    if config.model == "mlp":
        count = (d + 1 + max(1, classes)) * config.hidden + max(1, classes)
    if count > MOST_PARAMETERS:
        raise ValueError(
            f"{config.model or design.target.model} on {d:,} columns"
            f"{f' and {classes:,} classes' if classes else ''} has {count:,} parameters, more than "
            f"{MOST_PARAMETERS:,}. Choose fewer columns with --features"
            f"{', or a smaller --hidden' if config.model == 'mlp' else ''}."
        )
