from .value import Scores as Scores
from .value import ValueMeter as ValueMeter
