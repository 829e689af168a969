"""TODO."""

from .learn import learn_multi_head as learn_multi_head
