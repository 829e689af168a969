"""The paper, literally: arXiv 2601.16873, one function per result, with its own probes, constants and query counts.

One file per result, named after it: Theorem 5.1 is `theorem_5_1.py`. `tolerance` is Theorem 6.1 as a formula,
`_blockdiag` and `_commutant` are block-diagonalisation. `gh.paper.results()` is the map from the paper's results to
functions and tests (`results.toml`).
"""

import tomllib
from importlib.resources import files

from ._blockdiag import blockdiag as blockdiag
from .hessian_subspaces import hessian_subspaces as hessian_subspaces
from .lemma_a_1 import lemma_a_1 as lemma_a_1
from .proposition_7_1 import proposition_7_1 as proposition_7_1
from .proposition_c_2 import proposition_c_2 as proposition_c_2
from .section_4_1 import section_4_1 as section_4_1
from .theorem_4_1 import theorem_4_1 as theorem_4_1
from .theorem_5_1 import theorem_5_1 as theorem_5_1
from .theorem_6_1 import theorem_6_1 as theorem_6_1
from .theorem_b_1 import theorem_b_1 as theorem_b_1
from .theorem_b_1 import theorem_b_1_queries as theorem_b_1_queries
from .tolerance import accuracy_for as accuracy_for
from .tolerance import tolerance_for as tolerance_for


def results() -> list[dict[str, str]]:
    """Every result of the paper: `name`, `says`, `function` and `test`; the last two are empty where not done yet."""
    return tomllib.loads((files("glasshead.paper") / "results.toml").read_text())["result"]
