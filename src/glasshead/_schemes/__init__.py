"""TODO."""

from .full import Measured as Measured
from .full import full as full
from .low_rank import low_rank as low_rank
from .low_rank import read_W as read_W
