"""The paper, literally: arXiv 2601.16873, one function per result, with its own probes, constants and query counts.

`gh.paper.results()` is the map from the paper's results to functions and tests.
"""

from ._results import results as results
from .theorem_4_1 import theorem_4_1 as theorem_4_1
from .theorem_5_1 import theorem_5_1 as theorem_5_1
