"""TODO."""

from .learn import learn_combined as learn_combined
