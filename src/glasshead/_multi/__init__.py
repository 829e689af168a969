from .asleep import checked_heads as checked_heads
from .check import held_out_heads as held_out_heads
from .learn import learn_multi_head as learn_multi_head
from .learned import LearnedMultiHead as LearnedMultiHead
