"""Solvers for measurements in hand: W from triples with `a_k^T W b_k = t_k`, with a report that can be checked.

`_nuclear_norm` (by `_douglas_rachford`) and `_fixed_rank` (by Gauss-Newton) are the two solvers; `_measurements` what
goes in, `_result` what comes out, `_factors` the matrices of low rank in between.
"""

from ._fixed_rank import fixed_rank as fixed_rank
from ._measurements import measurements_needed as measurements_needed
from ._nuclear_norm import nuclear_norm as nuclear_norm
from ._result import Certificate as Certificate
from ._result import Sensed as Sensed
