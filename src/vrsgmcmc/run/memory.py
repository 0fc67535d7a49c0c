"""Whether what a run must hold fits in the memory of this machine."""

import psutil

from vrsgmcmc.core import Estimator, Params, nbytes

COPIES = 4  # of the parameters, at least: position, gradient, noise, and the next position


def free_memory() -> int:
    """Bytes that the machine can still give."""
    return psutil.virtual_memory().available


def check_memory(needed: int, what: str, instead: str) -> None:
    """Refuse what cannot fit in the machine's memory."""
    if needed > (free := free_memory()):
        raise MemoryError(f"{what} needs {needed:,} bytes and {free:,} are free. {instead}")


def check_run_memory(
    estimator: Estimator, params: Params, size: int, chains: int, draws: int
) -> None:
    """Refuse a run whose parameters, tables of gradients, or draws do not fit."""
    check_memory(
        COPIES * nbytes(params) * chains,
        f"{chains} chains of {nbytes(params):,} bytes of parameters, {COPIES} copies of each,",
        "Use fewer chains or a smaller model.",
    )
    table = estimator.table_bytes(params, size)
    check_memory(
        3 * table * chains,
        f"{estimator.name}() keeps a gradient for each of {size:,} data ({table:,} bytes), for each "
        f"of {chains} chains, three times while it is updated, and so",
        "Use svrg() or practical(), which keep two copies of the parameters, or fewer chains.",
    )
    check_memory(
        nbytes(params) * draws * chains,
        f"keeping {draws:,} draws of {nbytes(params):,} bytes for each of {chains} chains",
        'Name a run_dir, which keeps them on disk; take a larger thin; or keep="averages" with '
        "observables.",
    )
