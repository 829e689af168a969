"""How an answer becomes a score. A scheme asks a meter for scores `a^T W b`; each kind of box has a meter of its own.

`meter`: what a meter is, scores and their errors. `one_row`: v and bias from answers to one token. `reading`: logits
from answers to two, and the scale at which they are read best. `value`: real numbers. `sign`: yes and no, by
`bisection` on either side of the plane where answers change. `isolated_head`: one head of several, `head_sum` all of
them. `vector`: many numbers per answer. `matching`: a head in front of a network.
"""

from .bisection import Halfspace, Unbounded, find_exponents, find_intervals, logit_range, read_outweighs, value_rounding
from .head_sum import SAFETY, HeadValues, SumOfHeads, ValueSpace, read_head_sum, value_space
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
from .meter import Errors, Meter, Scores, one_after_the_other, side_by_side
from .one_row import Values, outputs_error
from .reading import FINE_PILOTS, TARGET_LOGIT, AlwaysSaturated, Interval, Pilot, find_logit_scale
from .sign import CLEAR_VALUE, RANGE_RMS, KeyBias, Probes, SignMeter
from .value import RATIO, ValueMeter, largest_product, lever
from .vector import Readout, VectorMeter, reader, seen_outputs
