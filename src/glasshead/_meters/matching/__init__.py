"""Scores of a head behind an unknown network, by finding sequences that are answered alike.

`curve`: the two sequences that are compared, and the noise of their answers; `match`: where they are answered alike;
`meter`: scores of many probes, asking again where one does not tell, and what a scheme sees of them; `crossing`: the
same for yes and no; `place`: where to measure from.
"""

from .crossing import Crossings, SignMatchingMeter
from .curve import Copies, OneRow, floor, read_answer_noise, slope_step
from .match import read_references
from .meter import MatchingMeter, Ruler
from .place import Place, PlacePilots
