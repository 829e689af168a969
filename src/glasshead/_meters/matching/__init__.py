"""Scores of a head behind an unknown network, by finding sequences that are answered alike.

`curve`: the two sequences that are compared, and the noise of their answers; `match`: where they are answered alike;
`ruler`: scores of many probes, asking again where one does not tell; `crossing`: the ruler for yes and no; `place`:
where to measure from; `meter`: what a scheme sees.
"""

from .crossing import Crossings
from .curve import Copies, OneRow, floor, read_answer_noise, slope_step
from .match import Matching
from .meter import MatchingMeter, SignMatchingMeter
from .place import Place, PlacePilots
from .ruler import Ruler
