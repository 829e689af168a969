from .base import Oracle as Oracle
from .base import Wrapper as Wrapper
from .limits import Budgeted as Budgeted
from .limits import Counted as Counted
from .limits import Watched as Watched
from .sign import SignOracle as SignOracle
from .value import ValueOracle as ValueOracle
from .voting import Voting as Voting
