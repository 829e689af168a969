"""The paper, literally: arXiv 2601.16873, one function per result, with its own probes, constants and query counts.

`gh.paper.results()` is the map from the paper's results to functions and tests.
"""

from ._results import results as results
from .lemma_a_1 import lemma_a_1 as lemma_a_1
from .theorem_4_1 import theorem_4_1 as theorem_4_1
from .theorem_5_1 import theorem_5_1 as theorem_5_1
from .theorem_6_1 import theorem_6_1 as theorem_6_1
from .theorem_b_1 import theorem_b_1 as theorem_b_1
from .theorem_b_1 import theorem_b_1_queries as theorem_b_1_queries
