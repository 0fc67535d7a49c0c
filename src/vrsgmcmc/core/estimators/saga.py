"""SAGA-LD (Dubey et al. 2016): a table of the last gradient seen for each datum.

With t_i the gradient in row i of the table and G = sum_i t_i,

    g(x) = G + grad logprior(x) + N/n sum_{i in batch} (grad loglik(x, d_i) - t_i),

then t_i = grad loglik(x, d_i) for i in the batch, and G follows. A datum drawn twice in one batch
counts twice in the estimate and once in the table.
"""

from ..gradients import row_gradients
from ..types import description
from .tables import Tabular


@description
class SAGA(Tabular):
    name = "saga"

    def estimate(self, posterior, memory, point, batch, augment_key, size):
        rows = row_gradients(posterior, point, batch, augment_key)
        return self.correct(posterior, memory, point, batch.index, rows, size)


def saga() -> SAGA:
    """SAGA-LD: n evaluations per step, N once for the table, which holds N times the parameters."""
    return SAGA()
