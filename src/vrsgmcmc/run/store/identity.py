"""Whether a run directory holds the run that is asked for."""

import logging
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from vrsgmcmc.core import Sampler, to_json

from . import environment
from .errors import RunError

logger = logging.getLogger("vrsgmcmc")
DEFAULTS = {f.name: to_json(f.default) for f in fields(Sampler) if f.default is not MISSING}


def check_same(
    path: Path, commit: dict[str, Any], config: dict[str, Any], surroundings: dict[str, Any]
) -> None:
    """Refuse another run, and say what is different; note what may change bits."""
    there = commit["environment"]
    binding, notes = environment.compare(there, surroundings)
    defaults = {name: DEFAULTS[name] for name in DEFAULTS.keys() & config.keys()}
    # an option that is newer than the run had its default there
    other = list(environment.differences({**defaults, **commit["config"]}, config))
    if commit["finished"]:  # it is only read, so any machine and any version will do
        binding = [text for text in binding if text.startswith(("data", "seed"))]
        if there.get("versions") != surroundings["versions"]:
            other = [(name, text) for name, text in other if not name.startswith("model")]
    reasons = [text for _, text in other] + binding
    if reasons:
        more = ""
        parts = [each.get("versions") for each in (there, surroundings)]
        versions = [part.get("vrsgmcmc") if isinstance(part, dict) else None for part in parts]
        if versions[0] != versions[1] and any(name.startswith("model") for name, _ in other):
            more = (
                f" The run was made with vrsgmcmc {versions[0]}, and this is {versions[1]}: a step of "
                f"theirs is another program. Finish the run with vrsgmcmc {versions[0]}."
            )
        if any(name == "num_steps" for name, _ in other):
            more += (
                " To go on behind the end of a run, pass init=result.state and another run_dir: steps "
                "are counted on."
            )
        raise RunError(
            f"run_dir={str(path)!r} holds another run:\n  "
            + "\n  ".join(reasons)
            + f"\nMake these equal to resume it, or name another directory.{more}"
        )
    if not commit["finished"]:
        for text in notes:
            logger.warning("%s: %s; resumed, though bits may differ", path.name, text)
