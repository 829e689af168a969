"""How a box is asked. Every oracle has a dimension, a promise and `__call__`; a wrapper changes one thing about one.

`base`: the two base classes. `box`: oracles around a callable; `precision`: how many digits it computes with; `signs`:
those of yes and no. `boundary`: where a query is counted, the budget, progress, answers kept, and what may leave a
recovery. `views`: the box on other tokens, its answers combined or averaged. `straightened`: a known network undone.
`one_token`: the single token that is answered like a sequence. `sphere`: normalised tokens.
`long_token`: heads alone, where a norm stands in front of them. `places`: position vectors, and the box without them;
`plain_places`: those in front of one head alone.
"""

from .base import (
    DOUBLE,
    HALF,
    HEADROOM,
    REACH,
    ROUNDOFF,
    SINGLE,
    Opening,
    Oracle,
    Wrapper,
    batch_rounding,
    law_token,
    near_token,
    read_first_answers,
    read_rows,
)
from .boundary import Budgeted, Counted, Recorded, Report, Watched, bar, guarded
from .box import CHUNK_BYTES, Answering, BoxOracle, InputOracle, ValueOracle, as_oracle
from .long_token import LongToken, are_log_probabilities, extrapolation, find_long_token
from .one_token import STALLED_ROUNDINGS, find_alike, read_bent_slope, read_single, read_slope
from .places import PLACES, Unplaced, find_places
from .precision import as_array, few_bits, read_format, read_opening
from .signs import SignOracle, Voting
from .sphere import Sphere, find_order, find_sphere
from .straightened import FAR_OUT, LESS_FAR_OUT, Flat, Straightened
from .views import (
    CERTAIN,
    Antisymmetric,
    Averaged,
    Combined,
    Narrow,
    Normalised,
    OneNumber,
    OneOutput,
    Rounded,
    Scaled,
    SeveralNumbers,
    Translated,
    Within,
    read_unit_rows,
)
