"""SVRG-LD (Dubey et al. 2016): the anchor sees all data.

Every m steps, at the current sample x~,   g~ = sum_{i=1..N} grad loglik(x~, d_i),   and every step

    g(x) = g~ + grad logprior(x) + N/n sum_{i in batch} (grad loglik(x, d_i) - grad loglik(x~, d_i)).
"""

from dataclasses import field

from ..arguments import whole
from ..types import STATIC, description
from .anchored import Anchored


@description
class SVRG(Anchored):
    name = "svrg"

    period: int | None = field(metadata=STATIC)

    def refresh_period(self, size, batch_size):
        if self.period is None and batch_size:
            return -(-size // batch_size)
        return self.period


def svrg(period: int | None = None) -> SVRG:
    """SVRG-LD: 2 n evaluations per step and N per refresh. Variance N (N-n)/n S2(alpha - beta).

    - `period`: steps between two refreshes; None: ceil(N / batch_size), as in the paper.
    """
    return SVRG(None if period is None else whole("svrg", "period", period))
