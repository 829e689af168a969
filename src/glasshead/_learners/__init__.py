"""TODO."""

from .any_network import learn_any_network as learn_any_network
from .heads import check_head as check_head
from .heads import check_heads as check_heads
from .heads import learn_one as learn_one
from .heads import learn_one_vector as learn_one_vector
from .heads import learn_several as learn_several
from .heads import learn_several_vector as learn_several_vector
from .signs import learn_sign_attention as learn_sign_attention
from .transformer import learn_transformer as learn_transformer
