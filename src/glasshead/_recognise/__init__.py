"""Which family a box is of, from a handful of answers (`guess`), and which to try next where that family did not
explain it (`rules`)."""

from .guess import LAST_RESORT, NO_GUESS, find_families
from .rules import Failure, find_next
