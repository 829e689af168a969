"""TODO."""

from .route import check_head as check_head
from .route import check_heads as check_heads
from .route import learn_one as learn_one
from .route import learn_one_vector as learn_one_vector
from .route import learn_several as learn_several
from .route import learn_several_vector as learn_several_vector
