"""How each family is learned: one file or folder per family, all on meters and schemes.

`attention` is one head from value answers: `frames` finds the tokens to read it with, `noise` and `passes` average
answers that are noisier than promised. `signs` is one head from yes and no, `transformer` one in front of a ReLU
network, `any_network` one in front of anything, `heads` several heads, `block` several heads in front of anything.
"""

from .any_network import learn_any_network
from .attention import learn_attention
from .block import learn_block
from .heads import learn_one_vector, learn_several, learn_several_vector
from .signs import learn_sign_attention
from .transformer import learn_transformer
