"""Heads seen through keys so long that each of them is all or nothing: how many there are, and the v of each.

`F(z) = sum of z.v_h over the heads with z.k_h > 0` is piecewise linear and jumps once per head on any half circle
(design, section 7, steps 2 and 3). `circle` finds the jumps, `gradients` reads the gradient of F between them, `values`
takes the v of every head from the changes of the gradient, and that of a head that takes the mean from copies of a key.
"""

from .circle import Bracket as Bracket
from .circle import KeyCircle as KeyCircle
from .circle import Saturated as Saturated
from .gradients import arcs as arcs
from .gradients import read_gradients as read_gradients
from .values import NoSigns as NoSigns
from .values import find_circle as find_circle
from .values import random_unit as random_unit
from .values import read_head_values as read_head_values
from .values import read_without_mean as read_without_mean
