"""Heads from vector answers: when the box answers k numbers per query, one query of many tokens reveals many scores."""

from .check import check_vector as check_vector
from .learn import learn_vector as learn_vector
from .learn import learn_vector_attention as learn_vector_attention
from .learned import LearnedVector as LearnedVector
from .needs import NeedsScalarRoute as NeedsScalarRoute
