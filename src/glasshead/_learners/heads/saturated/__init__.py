"""Heads seen through keys so long that each of them is all or nothing: how many there are, and the v of each.

`F(z) = sum of z.v_h over the heads with z.k_h > 0` is piecewise linear and jumps once per head on any half circle
(docs/multi-head.md, "How it works"). `circle` finds the jumps, `gradients` reads the gradient of F between them, and
`values` takes the v of every head from the changes of the gradient, and that of a head that takes the mean from copies
of a key.
"""

from .circle import Bracket, KeyCircle, Saturated
from .gradients import STEP_SHRINK, Arc, arcs, find_interior, random_units, read_arc_point, read_gradients
from .values import NoSigns, find_circle, random_unit, read_head_values, read_without_mean
