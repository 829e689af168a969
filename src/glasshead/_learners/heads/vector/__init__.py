"""TODO."""

from .learn import learn_vector as learn_vector
from .learn import learn_vector_attention as learn_vector_attention
from .spaces import NeedsScalarRoute as NeedsScalarRoute
