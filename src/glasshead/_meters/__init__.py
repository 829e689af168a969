"""How an answer becomes a score. A scheme asks a meter for scores `a^T W b`; each kind of box has a meter of its own.

`meter`: what a meter is, scores and their errors. `frame`: directions to probe with. `reading`: v, bias and logits from
answers, and the scale at which they are read best. `value`: real numbers. `sign`: yes and no, with `bits`, bisection,
and `halfspace`, the plane where answers change. `isolated`: one head of several. `vector`: many numbers per answer.
`matching`: a head in front of an unknown network.
"""

from .bits import Unbounded as Unbounded
from .bits import bisect as bisect
from .bits import exponents as exponents
from .bits import logit_range as logit_range
from .bits import outweighs as outweighs
from .frame import NO_FRAME as NO_FRAME
from .frame import Frame as Frame
from .frame import cone as cone
from .frame import orthonormal_frame as orthonormal_frame
from .frame import squeezed as squeezed
from .halfspace import Halfspace as Halfspace
from .halfspace import value_rounding as value_rounding
from .head_sum import SAFETY as SAFETY
from .head_sum import SINGLE as SINGLE
from .head_sum import HeadValues as HeadValues
from .head_sum import SumOfHeads as SumOfHeads
from .head_sum import ValueSpace as ValueSpace
from .head_sum import read_head_sum as read_head_sum
from .head_sum import value_space as value_space
from .isolated_head import SATURATED as SATURATED
from .isolated_head import IsolatedHead as IsolatedHead
from .isolated_head import isolated_meter as isolated_meter
from .matching import Copies as Copies
from .matching import Crossings as Crossings
from .matching import Matching as Matching
from .matching import MatchingMeter as MatchingMeter
from .matching import OneRow as OneRow
from .matching import Place as Place
from .matching import PlacePilots as PlacePilots
from .matching import Ruler as Ruler
from .matching import SignMatchingMeter as SignMatchingMeter
from .matching import floor as floor
from .matching import read_answer_noise as read_answer_noise
from .matching import slope_step as slope_step
from .meter import Errors as Errors
from .meter import Meter as Meter
from .meter import Scores as Scores
from .meter import one_after_the_other as one_after_the_other
from .meter import side_by_side as side_by_side
from .reading import FINE_PILOTS as FINE_PILOTS
from .reading import TARGET_LOGIT as TARGET_LOGIT
from .reading import AlwaysSaturated as AlwaysSaturated
from .reading import Interval as Interval
from .reading import Pilot as Pilot
from .reading import Values as Values
from .reading import find_logit_scale as find_logit_scale
from .reading import outputs_error as outputs_error
from .sign import CLEAR_VALUE as CLEAR_VALUE
from .sign import RANGE_RMS as RANGE_RMS
from .sign import KeyBias as KeyBias
from .sign import Probes as Probes
from .sign import SignMeter as SignMeter
from .value import HEADROOM as HEADROOM
from .value import RATIO as RATIO
from .value import ValueMeter as ValueMeter
from .value import largest_product as largest_product
from .value import lever as lever
from .vector import Readout as Readout
from .vector import VectorMeter as VectorMeter
from .vector import read_rows as read_rows
from .vector import reader as reader
from .vector import seen_outputs as seen_outputs
