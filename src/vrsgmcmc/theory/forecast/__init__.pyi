from .forecast import Forecast as Forecast
from .forecast import forecast as forecast
from .forecast import predict as predict
from .local import LARGEST as LARGEST
from .local import Local as Local
from .local import local as local
from .response import response as response
