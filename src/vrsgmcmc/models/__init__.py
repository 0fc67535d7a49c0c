"""Models with known answers, each written for ONE datum.

| module | one datum | parameters | exact posterior |
| --- | --- | --- | --- |
| `gaussian` | x ~ N(theta, variance) | theta, a scalar or a vector | yes, conjugate |
| `linear` | y ~ N(x . w, variance) | w [d] | yes, conjugate |
| `logistic` | y in {0, 1}, P(y = 1) = sigmoid(x . w) | w [d] | no |
| `softmax` | y in 0..K-1, P(y = k) = softmax(x W + b)_k | {"weight": [d, K], "bias": [K]} | no |

Every module has `posterior(...)`, a `Posterior` whose functions are the same objects for the same
hyper-parameters (compiled programs are cached on them), and `initial(...)`, a start at zero.
"""

from vrsgmcmc.models import gaussian, linear, logistic, softmax

__all__ = ["gaussian", "linear", "logistic", "softmax"]
