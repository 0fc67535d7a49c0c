"""Models, each written for ONE datum: some with exact posteriors, and the networks of the paper.

| module | one datum | parameters | exact posterior |
| --- | --- | --- | --- |
| `gaussian` | x ~ N(theta, variance) | theta, a scalar or a vector | yes, conjugate |
| `linear` | y ~ N(x . w, variance) | w [d] | yes, conjugate |
| `logistic` | y in {0, 1}, P(y = 1) = sigmoid(x . w) | w [d] | no |
| `softmax` | y in 0..K-1, P(y = k) = softmax(x W + b)_k | {"weight": [d, K], "bias": [K]} | no |
| `mlp` | a class or a number from f(x) = a(x W1 + b1) W2 + b2 | an `equinox.Module` | no |
| `cnn` | the class of an image, by four convolutions | an `equinox.Module` | no |
| `resnet` | the class of an image, or of each in a group, by twenty layers | an `equinox.Module` | no |
| `lstm` | the next words in a segment of text | an `equinox.Module` | no |
| `table` | a number, count or class from columns and groups, noise sampled | a dict | no |

Every module has `posterior(...)`, or `mlp.classifier(...)` and `mlp.regressor(...)`: a `Posterior`
whose functions are the same objects for the same hyper-parameters, because compiled programs are cached
on them. And it has `initial(...)`, a start at zero or, for a network, a function of a key.

Modules are imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
