"""What learners hand back: one base class, `Learned`, which says what `gh.recover` needs of each, and its kinds.

- `learned`: the protocol, what fresh queries said about it (`HeldOut`), and models
  around one that was found, which say what may be held against a box
- `head`: one head, with bounds that follow from a promise, from the scatter of passes, or for yes and no
- `kinds`: several heads, and one with many outputs: checked, not bounded; a head with a network behind it, which is
  known (`LearnedTransformer`) or stays a box (`LearnedFront`)
- `block`: heads inside a block, whose other parts stay a box
"""

from .block import STAYS_A_BOX, UNLUCKY, LearnedBlock
from .head import BOUNDS, MEASURED, LearnedFromSigns, LearnedHead, Quiet, Sampled
from .kinds import LearnedCombined, LearnedFront, LearnedMultiHead, LearnedTransformer, LearnedVector, Promise
from .learned import (
    FRESH_CAUTION,
    HeldOut,
    Learned,
    Predicting,
    head_length,
    suited_length,
    typical_score_error,
)
