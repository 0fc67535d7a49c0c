"""The environment that the bits of a run may depend on, and what differs between two environments.

Of the environment's variables only XLA_FLAGS is recorded, and no path of the user's home.
"""

import os
import platform
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import jax

PACKAGES = ("vrsgmcmc", "jax", "jaxlib", "numpy", "safetensors", "xarray", "zarr")
OPTIONS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_numpy_dtype_promotion",
)
# A run is not resumed where one of these differs; a difference in the rest is logged.
BINDING = ("data", "devices", "options", "seed", "versions.jax", "versions.jaxlib")


def describe(seed: Any, data: str) -> dict[str, Any]:
    """`seed`: the words of the key; `data`: the sha256 of the data."""
    device = jax.devices()[0]
    return {
        "data": {"sha256": data},
        "devices": {"count": jax.device_count(), "kind": device.device_kind}
        | {"platform": device.platform, "processes": jax.process_count()},
        "options": {name: str(getattr(jax.config, name, None)) for name in OPTIONS},
        "seed": seed,
        "versions": {name: version(name) for name in PACKAGES}
        | {"python": platform.python_version()},
        "xla_flags": xla_flags(),
        "cpu": cpu_model(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def xla_flags() -> str:
    return without_home(os.environ.get("XLA_FLAGS", ""))


def without_home(text: str) -> str:
    """Text without the path of the user's home directory."""
    home = os.path.expanduser("~")
    return text.replace(home, "~") if len(home) > 1 else text


def cpu_model() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            names = [
                line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
            ]
        return names[0]
    except (OSError, IndexError):
        return platform.processor()


def differences(there: Any, here: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """The parts of two records that are not equal: their names, and both values in words."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted({*there, *here}):
            inner = f"{name}.{key}" if name else key
            yield from differences(there.get(key), here.get(key), inner)
    elif there != here:
        yield name, f"{name}: {shorten(there)} in the run, {shorten(here)} here"


def shorten(value: Any) -> str:
    """A value as text of at most 60 characters."""
    text = str(value)
    return text if len(text) <= 60 else f"{text[:56]} ..."


def compare(there: dict[str, Any], here: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Differences that forbid resuming a run here, and differences worth a log line."""
    changes = list(differences(there, here))
    binding = [text for name, text in changes if is_binding(name)]
    return binding, [text for name, text in changes if not is_binding(name)]


def is_binding(name: str) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in BINDING)
