"""When two models are the same function.

`canonical` merges heads that score alike, `equivalent` asks whether the difference of two models has any head left, how
far apart they are, and makes other parameters of the same function, `separating` finds a sequence that shows a
difference.
"""

from .canonical import canonical
from .equivalent import distance, equivalent, witness
from .separating import separating_input
