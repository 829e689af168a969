"""TODO."""

from .route import learn_one_vector, learn_several, learn_several_vector
