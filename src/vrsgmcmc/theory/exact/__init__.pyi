from .averages import AverageError as AverageError
from .averages import mse as mse
from .laws import Law as Law
from .laws import autocovariance as autocovariance
from .laws import stationary as stationary
from .problems import LinearGaussian as LinearGaussian
from .problems import gaussian_mean as gaussian_mean
from .problems import linear_regression as linear_regression
