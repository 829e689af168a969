"""TODO."""

from .canonical import canonical as canonical
from .distance import distance as distance
from .equivalent import equivalent as equivalent
from .separating import separating_input as separating_input
from .witness import witness as witness
