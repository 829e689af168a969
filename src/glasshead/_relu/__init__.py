"""A two-layer ReLU network from its values: `gh.recover_relu`.

In reading order: `learn` (the entry), `scale` (the first look), `homogeneous` (what is learned), `attempt` (one circle:
`circle` and `samples` for kinks, `gradients` for slopes, `repair` for bad ones, `neurons` for all of it), `check`, and
`tolerances`, all absolute ones in one place.
"""

from .learn import recover_relu
from .neurons import ReluNetwork, choose_signs
