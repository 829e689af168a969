"""What an endpoint may do to its answers, for auditing your own model: each wraps a box and is a box again.

>>> box = gh.defences.rounded(gh.defences.clipped(gh.Attention.random(8), max_norm=10), decimals=3)
>>> box.dim, box.tolerance, box.max_norm
(8, 0.0005, 10.0)

A box is any callable that takes `(B, N, d)` and returns `(B,)` or `(B, k)`. They combine in any order.

Adding one: subclass `Defence` (its docstring has one in six lines), in `_digits` if it rounds, in `_noise` if it is
random, and export it here.
"""

from ._defence import Defence as Defence
from ._defence import clipped as clipped
from ._digits import bfloat16 as bfloat16
from ._digits import half as half
from ._digits import rounded as rounded
from ._noise import flipped as flipped
from ._noise import gaussian as gaussian
from ._noise import noisy as noisy
