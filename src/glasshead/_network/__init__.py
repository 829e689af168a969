"""A two-layer network, plain or gated, from its values: `gh.recover_network`.

In reading order: `learn` (the entry), `domain` (where it may be asked), `step` (the first look), `span` (second
derivatives and the count of neurons), `rank_one` and `rank_two` (their directions), `directions` (the rest of them),
`ridge` (scales, biases, which activation), `signs`, `refine`, `check`, `result`; `piecewise` is the way for ReLU, on
a sphere `creases`, of kinks along great circles (`arcs`). `rays` and `ray_creases` are for answers that are known up
to their lengths, behind a normalisation; `gpu` does the search of `rank_one` where torch sees a GPU.
"""

from .check import NOISIEST
from .gpu import device_for
from .learn import recover_network
from .rays import Bent, find_bent
from .refine import inputs_for
from .result import RecoveredNetwork
from .span import FILLING
