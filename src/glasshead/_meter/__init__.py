from .scores import Meter as Meter
from .scores import Scores as Scores
from .sign import SignMeter as SignMeter
from .value import ValueMeter as ValueMeter
