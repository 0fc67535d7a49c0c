from .ito import ito as ito
from .leimkuhler_matthews import leimkuhler_matthews as leimkuhler_matthews
from .psgld import psgld as psgld
from .sghmc import sghmc as sghmc
from .sgld import sgld as sgld
from .sgnht import sgnht as sgnht
from .splitting import splitting as splitting
