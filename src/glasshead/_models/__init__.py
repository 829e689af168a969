"""What a box may be: parameters and a forward pass. Files: see the names; every one holds the model it is named after.

`attention` one head and what all heads share, `multi_head` their sum (`projections` cuts fused matrices into heads),
`transformer` a head with a two-layer ReLU network behind it, `front_head` a head with a black box behind it, `norm`
LayerNorm or RMSNorm, `rotary` positions, `placed` position vectors in front of any of them, `block` several heads with
a black box behind, `circuits` what interpretability looks at, `export` heads for other libraries (`fused`, `half_split`
and `sharing` make their projections), `figure` heads for papers, `files` safetensors, `two_layer` the network inside a
block, with its `activation`, `inside` and `post_norm` all that stands behind the heads of a block that is known whole.
"""

from .activation import ACTIVATIONS, Activation
from .attention import Attention, Head
from .block import Block
from .figure import drawn_model, heads_figure, nearest_heads, save_figure
from .files import AnyModel, Model, load, save, written_whole
from .front_head import Behind, FrontHead
from .inside import Inside, Unembedding
from .multi_head import MultiHead, without_bias
from .norm import Norm, token_before
from .placed import Placed
from .post_norm import PostNorm
from .rotary import Rotary, Turning
from .transformer import Network, Transformer
from .two_layer import TwoLayer
