"""TODO."""

from .meter import SATURATED as SATURATED
from .meter import IsolatedHead as IsolatedHead
from .meter import isolated as isolated
from .room import HeadValues as HeadValues
from .room import Room as Room
from .room import make_room as make_room
from .two_tokens import SAFETY as SAFETY
from .two_tokens import Box as Box
from .two_tokens import open_box as open_box
