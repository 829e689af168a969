"""Which family a box is of, from a handful of answers (`guess`), which to try next where that family did not explain it
(`rules`), and which of the failures is raised where none did (`tries`)."""

from .guess import LAST_RESORT, find_families
from .rules import find_next
from .tries import Failure, Tries, half_the_digits, raised_instead, raised_nevertheless
