"""TODO."""

from .attention import Attention as Attention
from .attention import Head as Head
from .attention import plain as plain
from .attention import with_values as with_values
from .files import Model as Model
from .files import load as load
from .files import save as save
from .front_head import Behind as Behind
from .front_head import FrontHead as FrontHead
from .multi_head import MultiHead as MultiHead
from .network import Network as Network
from .norm import Norm as Norm
from .transformer import Transformer as Transformer
