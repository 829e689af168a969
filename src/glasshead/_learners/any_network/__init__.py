"""TODO."""

from .learn import learn_any_network as learn_any_network
