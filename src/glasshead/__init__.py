"""glasshead: recover the parameters of a black-box attention model from well-chosen queries.

>>> import glasshead as gh
>>> target = gh.Attention.random(8, seed=1)
>>> found = gh.recover(gh.ValueOracle(target))
>>> gh.distance(found.model, target) < 1e-13
True
"""

from . import paper as paper
from ._distance import distance as distance
from ._errors import AccuracyUnreachable as AccuracyUnreachable
from ._errors import BudgetExceeded as BudgetExceeded
from ._errors import Evidence as Evidence
from ._errors import GlassheadError as GlassheadError
from ._errors import NotIdentifiable as NotIdentifiable
from ._errors import OracleError as OracleError
from ._errors import TargetMismatch as TargetMismatch
from ._files import load as load
from ._files import save as save
from ._models import Attention as Attention
from ._oracle import Oracle as Oracle
from ._oracle import ValueOracle as ValueOracle
from ._plan import plan as plan
from ._recover import recover as recover
from ._recovery import Recovery as Recovery
from ._recovery import load_recovery as load_recovery
from ._version import __version__ as __version__
