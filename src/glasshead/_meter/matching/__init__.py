"""The self-calibrating meter: scores of one head through answers of which nothing is known but that they are equal."""

from .curve import Copies as Copies
from .curve import Curve as Curve
from .curve import OneRow as OneRow
from .meter import MatchingMeter as MatchingMeter
