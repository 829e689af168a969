"""A two-layer ReLU network from its values: `gh.recover_relu`.

In reading order: `learn` (the entry), `scale` (the first look), `homogeneous` (what is learned, and every absolute
tolerance), `attempt` (one circle: `circle` and `samples` for kinks, `gradients` for slopes, `repair` for bad ones,
`neurons` for all of it), and `check`.
"""

from .learn import recover_relu
from .neurons import ReluNetwork, choose_signs
