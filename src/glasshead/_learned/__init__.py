"""What learners hand back: one base class, `Learned`, which says what `gh.recover` needs of each, and its kinds.

- `base`: the protocol, what fresh queries said about it (`HeldOut`), and where a confidence comes from
- `head`: one head, with bounds that follow from a promise, from the scatter of passes, or for yes and no
- `heads`: several heads, and one with many outputs: checked, not bounded
- `network`: a head with a network behind it, which is known (`LearnedTransformer`) or stays a box (`LearnedFront`)
"""

from .base import MEASURED as MEASURED
from .base import HeldOut as HeldOut
from .base import Learned as Learned
from .base import Predicting as Predicting
from .head import BOUNDS as BOUNDS
from .head import LearnedFromSigns as LearnedFromSigns
from .head import LearnedHead as LearnedHead
from .head import Quiet as Quiet
from .head import Sampled as Sampled
from .heads import LearnedCombined as LearnedCombined
from .heads import LearnedMultiHead as LearnedMultiHead
from .heads import LearnedVector as LearnedVector
from .heads import Promise as Promise
from .network import LearnedFront as LearnedFront
from .network import LearnedTransformer as LearnedTransformer
