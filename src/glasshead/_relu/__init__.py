"""TODO."""

from .learn import recover_relu as recover_relu
from .neurons import ReluNetwork as ReluNetwork
