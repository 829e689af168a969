"""TODO."""

from .crossing import Crossings as Crossings
from .curve import Copies as Copies
from .curve import OneRow as OneRow
from .curve import answer_noise as answer_noise
from .curve import floor as floor
from .curve import slope_step as slope_step
from .match import Matching as Matching
from .meter import MatchingMeter as MatchingMeter
from .meter import SignMatchingMeter as SignMatchingMeter
from .place import Pilots as Pilots
from .place import Place as Place
from .ruler import Ruler as Ruler
