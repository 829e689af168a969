"""TODO."""

from .learn import learn_joint as learn_joint
from .lift import Silent as Silent
