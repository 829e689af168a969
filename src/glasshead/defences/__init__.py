"""What an endpoint may do to its answers, for auditing your own model: each wraps a box and is a box again.

>>> box = gh.defences.rounded(gh.defences.clipped(gh.Attention.random(8), max_norm=10), decimals=3)
>>> box.dim, box.tolerance, box.max_norm
(8, 0.0005, 10.0)

A box is any callable that takes `(B, N, d)` and returns `(B,)` or `(B, k)`. They combine in any order.

Adding one: subclass `Defence` (its docstring has one in six lines) in a file of its own, and export it here, as
docs/how-to-extend.md shows.
"""

from ._answers import bfloat16 as bfloat16
from ._answers import flipped as flipped
from ._answers import gaussian as gaussian
from ._answers import half as half
from ._answers import noisy as noisy
from ._answers import rounded as rounded
from ._defence import Defence as Defence
from ._defence import clipped as clipped
