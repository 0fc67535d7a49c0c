"""The names of the parameters of a model of a table, in words of the table's columns."""

from vrsgmcmc.datasets.tables import Design
from vrsgmcmc.models.table import Family

from .table_effects import label_of, outcomes

SHARED = {
    "log_sd": "log noise sd",
    "log_scale": "log noise scale",
    "log_dispersion": "log dispersion",
}


def parameter_names(family: Family, design: Design) -> dict[str, list[str]]:
    """Leaf -> a name for each of its scalars."""

    def each(name: str) -> list[str]:
        return [f"{name} ({outcome})" if outcome else name for outcome in kinds]

    labels = design.target.labels
    kinds = outcomes(family, labels)
    names = {"intercept": each("intercept")}
    if design.columns:
        names["weights"] = [name for column in design.columns for name in each(label_of(column))]
    for leaf in family.shared:
        names[leaf] = [SHARED.get(leaf, leaf)]
    if family.name == "ordinal":
        names["log_gaps"] = [f"log distance of the cut points of {each}" for each in labels[1:-1]]
    for group in design.groups:
        names[f"groups.{group.name}.log_sd"] = each(f"log sd of (1 | {group.name})")
        names[f"groups.{group.name}.levels"] = [
            name for level in group.levels for name in each(f"{group.name}: {level}, in sds")
        ]
    return names
