"""TODO."""

from .any_network import learn_any_network as learn_any_network
from .heads import check_head as check_head
from .heads import check_heads as check_heads
from .heads import learn_head as learn_head
from .heads import learn_heads as learn_heads
from .signs import learn_sign_attention as learn_sign_attention
from .transformer import learn_transformer as learn_transformer
