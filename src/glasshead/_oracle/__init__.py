from .base import Oracle as Oracle
from .base import Wrapper as Wrapper
from .limits import Budgeted as Budgeted
from .limits import Counted as Counted
from .limits import Watched as Watched
from .value import ValueOracle as ValueOracle
