from .block_saga import block_saga as block_saga
from .control_variate import control_variate as control_variate
from .full import full as full
from .minibatch import minibatch as minibatch
from .practical import practical as practical
from .saga import saga as saga
from .svrg import svrg as svrg
