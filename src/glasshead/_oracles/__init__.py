"""How a box is asked. Every oracle has a dimension, a promise and `__call__`; a wrapper changes one thing about one.

`base`: the two base classes. `box`: oracles around a callable, and how many digits it computes with. `limits`: where a
query is counted, the budget, progress, and answers kept. `views`: the box on other tokens, or its answers combined.
`noise`: answers made better by asking again. `straightened`: a known network undone.
"""

from .base import REACH as REACH
from .base import Opening as Opening
from .base import Oracle as Oracle
from .base import Wrapper as Wrapper
from .base import law_token as law_token
from .base import read_opening as read_opening
from .box import Answering as Answering
from .box import SignOracle as SignOracle
from .box import ValueOracle as ValueOracle
from .box import as_oracle as as_oracle
from .limits import Budgeted as Budgeted
from .limits import Counted as Counted
from .limits import Recorded as Recorded
from .limits import Watched as Watched
from .limits import bar as bar
from .noise import CERTAIN as CERTAIN
from .noise import Averaged as Averaged
from .noise import Narrow as Narrow
from .noise import Voting as Voting
from .straightened import Flat as Flat
from .straightened import Straightened as Straightened
from .views import Antisymmetric as Antisymmetric
from .views import Combined as Combined
from .views import Normalised as Normalised
from .views import OneNumber as OneNumber
from .views import OneOutput as OneOutput
from .views import Scaled as Scaled
from .views import Translated as Translated
from .views import Within as Within
