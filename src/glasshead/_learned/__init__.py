"""What learners hand back: one base class, `Learned`, which says what `gh.recover` needs of each, and its kinds.

- `base`: the protocol, what fresh queries said about it (`HeldOut`), and where a confidence comes from
- `head`: one head, with bounds that follow from a promise, from the scatter of passes, or for yes and no
- `heads`: several heads, and one with many outputs: checked, not bounded
- `network`: a head with a network behind it, which is known (`LearnedTransformer`) or stays a box (`LearnedFront`)
"""

from .base import MEASURED, HeldOut, Learned, Predicting
from .head import BOUNDS, LearnedFromSigns, LearnedHead, Quiet, Sampled
from .heads import LearnedCombined, LearnedMultiHead, LearnedVector, Promise
from .network import LearnedFront, LearnedTransformer
