"""What queries can tell apart; `docs/identifiability.md` has the theorem and its proof."""

from .canonical import canonical as canonical
from .equivalent import equivalent as equivalent
from .separating import separating_input as separating_input
from .witness import witness as witness
