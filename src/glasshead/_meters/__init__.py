"""How an answer becomes a score. A scheme asks a meter for scores `a^T W b`; each kind of box has a meter of its own.

`meter`: what a meter is, scores and their errors, and the scale at which they are read best. `reading`: v and bias from
answers to one token, logits from answers to two. `value`: real numbers, with `shared_errors` where they are promised.
`sign`: yes and no, by tokens on either side of the plane where answers change (`bisection`), which narrow down
`intervals`. `isolated_head`: one head of several, `head_sum` all of them. `vector`: many numbers per answer.
`matching`: a head in front of a network.
"""

from .bisection import Halfspace, KeyBias, comparing_sequences, logit_range, read_outweighs, value_rounding
from .head_sum import SAFETY, HeadValues, SumOfHeads, ValueSpace, read_head_sum, value_space
from .intervals import Unbounded, find_exponents, find_intervals
from .isolated_head import SATURATED, IsolatedHead, isolated_meter
from .matching import (
    Copies,
    Crossings,
    MatchingMeter,
    OneRow,
    Place,
    PlacePilots,
    Ruler,
    SignMatchingMeter,
    floor,
    read_answer_noise,
    read_references,
    slope_step,
)
from .meter import (
    FINE_PILOTS,
    TARGET_LOGIT,
    AlwaysSaturated,
    Errors,
    Meter,
    Pilot,
    Scores,
    find_logit_scale,
    one_after_the_other,
    side_by_side,
)
from .reading import Interval, Values, outputs_error
from .sign import CLEAR_VALUE, RANGE_RMS, Probes, SignMeter
from .value import MIXTURE_KEYS, RATIO, ValueMeter, largest_product, lever, mix_third_key, refuse_mixed_keys
from .vector import Readout, VectorMeter, reader, seen_outputs
