"""TODO."""

from .base import REACH as REACH
from .base import Oracle as Oracle
from .base import Wrapper as Wrapper
from .box import SignOracle as SignOracle
from .box import ValueOracle as ValueOracle
from .box import as_oracle as as_oracle
from .box import is_narrow as is_narrow
from .limits import Budgeted as Budgeted
from .limits import Counted as Counted
from .limits import Recorded as Recorded
from .limits import Replayed as Replayed
from .limits import Watched as Watched
from .limits import bar as bar
from .noise import CERTAIN as CERTAIN
from .noise import Averaged as Averaged
from .noise import Narrow as Narrow
from .noise import Voting as Voting
from .straightened import Flat as Flat
from .straightened import Straightened as Straightened
from .views import Antisymmetric as Antisymmetric
from .views import Normalised as Normalised
from .views import OneNumber as OneNumber
from .views import Scaled as Scaled
from .views import Translated as Translated
