"""Models with known answers, each written for ONE datum.

| module | one datum | parameters | exact posterior |
| --- | --- | --- | --- |
| `gaussian` | x ~ N(theta, variance) | theta, a scalar or a vector | yes, conjugate |
| `linear` | y ~ N(x . w, variance) | w [d] | yes, conjugate |
| `logistic` | y in {0, 1}, P(y = 1) = sigmoid(x . w) | w [d] | no |
| `softmax` | y in 0..K-1, P(y = k) = softmax(x W + b)_k | {"weight": [d, K], "bias": [K]} | no |
| `mlp` | a class or a number from f(x) = tanh(x W1 + b1) W2 + b2 | a dict of W1, b1, W2, b2 | no |

Every module has `posterior(...)`, a `Posterior` whose functions are the same objects for the same
hyper-parameters (compiled programs are cached on them), and `initial(...)`, a start at zero. `mlp` has
`classifier(...)` and `regressor(...)`, and its `initial(...)` is a function of a key.
"""

from vrsgmcmc.models import gaussian, linear, logistic, mlp, softmax

__all__ = ["gaussian", "linear", "logistic", "mlp", "softmax"]
