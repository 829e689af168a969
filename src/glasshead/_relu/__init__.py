"""Two-layer ReLU networks from value queries: one circle finds every neuron, since every hyperplane meets it."""

from .learn import recover_relu as recover_relu
from .network import ReluNetwork as ReluNetwork
