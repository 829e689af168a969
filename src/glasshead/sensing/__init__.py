from ._fixed_rank import fixed_rank
from ._nuclear_norm import nuclear_norm
from ._result import Certificate, Sensed
