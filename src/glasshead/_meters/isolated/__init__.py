"""TODO."""

from .meter import SATURATED as SATURATED
from .meter import IsolatedHead as IsolatedHead
from .meter import isolated_meter as isolated_meter
from .room import HeadValues as HeadValues
from .room import ValueSpace as ValueSpace
from .room import value_space as value_space
from .two_tokens import SAFETY as SAFETY
from .two_tokens import HeadSum as HeadSum
from .two_tokens import read_head_sum as read_head_sum
