"""TODO."""

from .circle import KeyCircle as KeyCircle
from .circle import Saturated as Saturated
from .gradients import arcs as arcs
from .gradients import read_gradients as read_gradients
from .jumps import Bracket as Bracket
from .values import NoSigns as NoSigns
from .values import find_circle as find_circle
from .values import random_unit as random_unit
from .values import read_head_values as read_head_values
from .values import read_without_mean as read_without_mean
