"""TODO."""

from .route import check_head as check_head
from .route import check_heads as check_heads
from .route import learn_head as learn_head
from .route import learn_heads as learn_heads
