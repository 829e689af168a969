from .attention import Attention as Attention
from .multi_head import MultiHead as MultiHead
from .transformer import Transformer as Transformer
