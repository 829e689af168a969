"""glasshead: recover the parameters of a black-box attention model from well-chosen queries.

>>> import glasshead as gh
>>> target = gh.Attention.random(8, seed=1)
>>> found = gh.recover(gh.ValueOracle(target))
>>> gh.distance(found.model, target) < 1e-13
True
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what type checkers and readers see; at run time each name is loaded when first used
    from . import answers as answers
    from . import baselines as baselines
    from . import defences as defences
    from . import paper as paper
    from . import sensing as sensing
    from ._audit import Audit as Audit
    from ._audit import audit as audit
    from ._boxes import from_completions as from_completions
    from ._boxes import from_executor as from_executor
    from ._boxes import from_http as from_http
    from ._boxes import from_onnx as from_onnx
    from ._boxes import from_ray as from_ray
    from ._boxes import from_torch as from_torch
    from ._boxes import from_transformers as from_transformers
    from ._errors import AccuracyUnreachable as AccuracyUnreachable
    from ._errors import BudgetExceeded as BudgetExceeded
    from ._errors import Evidence as Evidence
    from ._errors import GlassheadError as GlassheadError
    from ._errors import HeadsMerged as HeadsMerged
    from ._errors import JournalError as JournalError
    from ._errors import NotConverged as NotConverged
    from ._errors import NotIdentifiable as NotIdentifiable
    from ._errors import OracleError as OracleError
    from ._errors import TargetMismatch as TargetMismatch
    from ._identify import canonical as canonical
    from ._identify import distance as distance
    from ._identify import equivalent as equivalent
    from ._identify import separating_input as separating_input
    from ._identify import witness as witness
    from ._models import Attention as Attention
    from ._models import Block as Block
    from ._models import FrontHead as FrontHead
    from ._models import MultiHead as MultiHead
    from ._models import Norm as Norm
    from ._models import Placed as Placed
    from ._models import Rotary as Rotary
    from ._models import Transformer as Transformer
    from ._models import TwoLayer as TwoLayer
    from ._models import load as load
    from ._models import save as save
    from ._network import RecoveredNetwork as RecoveredNetwork
    from ._network import recover_network as recover_network
    from ._oracles import Oracle as Oracle
    from ._oracles import SignOracle as SignOracle
    from ._oracles import ValueOracle as ValueOracle
    from ._plan import plan as plan
    from ._recover import recover as recover
    from ._recovery import Recovery as Recovery
    from ._recovery import load_recovery as load_recovery
    from ._relu import ReluNetwork as ReluNetwork
    from ._relu import recover_relu as recover_relu
    from ._report import report as report
    from ._version import __version__ as __version__
    from .paper import accuracy_for as accuracy_for
    from .paper import blockdiag as blockdiag
    from .paper import tolerance_for as tolerance_for

_HOMES = {
    "": ("answers", "baselines", "defences", "paper", "sensing"),
    "_audit": ("Audit", "audit"),
    "_boxes": (
        "from_completions",
        "from_executor",
        "from_http",
        "from_onnx",
        "from_ray",
        "from_torch",
        "from_transformers",
    ),
    "_errors": (
        "AccuracyUnreachable",
        "BudgetExceeded",
        "Evidence",
        "GlassheadError",
        "HeadsMerged",
        "JournalError",
        "NotConverged",
        "NotIdentifiable",
        "OracleError",
        "TargetMismatch",
    ),
    "_identify": ("canonical", "distance", "equivalent", "separating_input", "witness"),
    "_models": (
        "Attention",
        "Block",
        "FrontHead",
        "MultiHead",
        "Norm",
        "Placed",
        "Rotary",
        "Transformer",
        "TwoLayer",
        "load",
        "save",
    ),
    "_network": ("RecoveredNetwork", "recover_network"),
    "_oracles": ("Oracle", "SignOracle", "ValueOracle"),
    "_plan": ("plan",),
    "_recover": ("recover",),
    "_recovery": ("Recovery", "load_recovery"),
    "_relu": ("ReluNetwork", "recover_relu"),
    "_report": ("report",),
    "paper": ("accuracy_for", "blockdiag", "tolerance_for"),
    "_version": ("__version__",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'glasshead' has no attribute {name!r}")
    home = _HOME[name]
    value = getattr(import_module(f".{home}", __name__), name) if home else import_module(f".{name}", __name__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOME)
