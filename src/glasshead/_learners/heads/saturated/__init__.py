"""TODO."""

from .circle import Circle as Circle
from .circle import Saturated as Saturated
from .gradients import arcs as arcs
from .gradients import slopes as slopes
from .jumps import Gap as Gap
from .values import NoSigns as NoSigns
from .values import best_circle as best_circle
from .values import direction as direction
from .values import read_values as read_values
from .values import without_mean as without_mean
