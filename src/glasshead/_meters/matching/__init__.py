"""Scores of a head behind an unknown network, by finding sequences that are answered alike.

`curve`: the two sequences that are compared, and the noise of their answers; `match`: where they are answered alike;
`ruler`: scores of many probes, asking again where one does not tell; `crossing`: the ruler for yes and no; `place`:
where to measure from; `meter`: what a scheme sees.
"""

from .crossing import Crossings as Crossings
from .curve import Copies as Copies
from .curve import OneRow as OneRow
from .curve import floor as floor
from .curve import read_answer_noise as read_answer_noise
from .curve import slope_step as slope_step
from .match import Matching as Matching
from .meter import MatchingMeter as MatchingMeter
from .meter import SignMatchingMeter as SignMatchingMeter
from .place import Place as Place
from .place import PlacePilots as PlacePilots
from .ruler import Ruler as Ruler
