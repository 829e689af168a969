"""When two models are the same function.

`canonical` merges heads that score alike, `equivalent` asks whether the difference of two models has any head left,
`separating` finds a sequence that shows it, `witness` other parameters of the same function, `distance` how far apart.
"""

from .canonical import canonical
from .distance import distance
from .equivalent import equivalent
from .separating import separating_input
from .witness import witness
