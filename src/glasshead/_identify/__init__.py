"""When two models are the same function.

`canonical` merges heads that score alike, `equivalent` asks whether the difference of two models has any head left and
makes other parameters of the same function, `distance` says how far apart two models are, `separating` finds a sequence
that shows a difference.
"""

from .canonical import canonical
from .distance import distance, what_differs
from .equivalent import equivalent, witness
from .separating import separating_input
