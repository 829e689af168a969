"""What a box may be: parameters and a forward pass. Files: see the names; every one holds the model it is named after.

`attention` one head and what all heads share, `multi_head` their sum (`projections` cuts fused matrices into heads),
`network` the two-layer ReLU network, `transformer` a head with one behind it, `front_head` a head with a black box
behind it, `norm` LayerNorm and RMSNorm in front of one, `files` safetensors.
"""

from .attention import Attention as Attention
from .attention import Head as Head
from .attention import stripped_of_bias as stripped_of_bias
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
