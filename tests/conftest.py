"""A strict JAX for every test: what would pass silently elsewhere is an error here.

float64, no rank promotion, no key used twice, annotations checked at run time, warnings are errors
(`pyproject.toml`).
"""

import os
import signal
import sys
import tempfile
from pathlib import Path

# In the environment, so that programs started by a test share the cache.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir(), f"vrsgmcmc-jax-{os.getuid()}"))
)

# Most of a short test's time goes to the compiler of machine code, and less to it when it optimises
# less. The slow tests, which compute for long, run what users run.
if "PYTEST_XDIST_WORKER" not in os.environ and "slow" not in sys.argv:
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import beartype
import hypothesis
import jax
import jaxtyping
import pytest

# A shell ignores Ctrl-C for what it starts in the background, and so would every test of it.
signal.signal(signal.SIGINT, signal.default_int_handler)

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_debug_key_reuse", True)
jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)

# The same examples in every run, and no deadline: the first one compiles.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("repeatable")


def check_functions(function):
    """Check a function's annotations, but not a dataclass's `__init__`.

    JAX rebuilds a registered dataclass through its `__init__` with whatever stands for its leaves
    at that moment: None, an axis number, a `ShapeDtypeStruct`. Those are no type errors.
    """
    return function if function.__name__ == "__init__" else beartype.beartype(function)


# The maths; the rooms that talk to users say in their own words what is wrong with an argument.
CHECKED = ("core.compiled", "core.rng", "core.order", "core.gradients", "core.tree", "theory")
jaxtyping.install_import_hook(
    [f"vrsgmcmc.{room}" for room in CHECKED], f"{__name__}.{check_functions.__name__}"
)


def pytest_make_parametrize_id(config, val, argname):
    """Bytes do not name a test: those of an archive hold the time, and workers would disagree."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data sets: VRSGMCMC_DATA or one beside ours, with all files."""
    from vrsgmcmc.datasets import CATALOGUE
    from vrsgmcmc.datasets.locate import find

    given = os.environ.get("VRSGMCMC_DATA")
    folder = Path(__file__).parents[2] / "shared" / "data" if given is None else Path(given)
    if given is None and not folder.is_dir():
        pytest.skip("needs real data: set VRSGMCMC_DATA to their folder")
    lacking = [n for n, known in CATALOGUE.items() if len(find(known, [folder])) < len(known.files)]
    if lacking:
        pytest.fail(f"the data folder {os.fspath(folder)!r} lacks files of {', '.join(lacking)}")
    return folder


MOST_MAPS = 30_000  # of memory, of the 65,530 that Linux allows; a compiled program takes about 260


@pytest.fixture(autouse=True)
def room_for_programs(request: pytest.FixtureRequest):
    """Forget compiled programs before there are too many: the compiler would crash."""
    yield
    maps = Path("/proc/self/maps")
    if hash(request.node.nodeid) % 8 == 0 and maps.exists():  # now and then
        with maps.open("rb") as lines:
            if sum(1 for _ in lines) > MOST_MAPS:
                jax.clear_caches()
