"""What a box may be: parameters and a forward pass. Files: see the names; every one holds the model it is named after.

`attention` one head and what all heads share, `multi_head` their sum (`projections` cuts fused matrices into heads),
`network` the two-layer ReLU network, `transformer` a head with one behind it, `front_head` a head with a black box
behind it, `norm` LayerNorm or RMSNorm, `rotary` positions, `block` several heads with a black box behind, `export`
heads for other libraries, `files` safetensors.
"""

from .attention import Attention, Head
from .block import Block
from .files import Model, load, save, written_whole
from .front_head import Behind, FrontHead
from .multi_head import MultiHead, without_bias
from .network import Network
from .norm import Norm
from .rotary import Rotary, Turning
from .transformer import Transformer
