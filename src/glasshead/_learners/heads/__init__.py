"""TODO."""

from .route import learn_one_vector as learn_one_vector
from .route import learn_several as learn_several
from .route import learn_several_vector as learn_several_vector
