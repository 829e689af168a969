from .full import full as full
from .low_rank import low_rank as low_rank
from .measured import Measured as Measured
