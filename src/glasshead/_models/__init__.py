from .attention import Attention as Attention
from .front_head import FrontHead as FrontHead
from .multi_head import MultiHead as MultiHead
from .norm import Norm as Norm
from .transformer import Transformer as Transformer
