"""One head or several? Three two-token answers tell, before anything is spent on telling heads apart.

One head moves the answer to `[q + z ; q]` from that to `[q]` by `sigma(z.k) z B`, where `z B` is what z alone adds: on
a known line, by a share whose logit is linear in z. Several heads with different scores leave the line, or, where their
value maps are multiples of each other, their logits do not add up.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logit

from ...._meters import Readout
from ...._oracles import Oracle
from .scale import Scale, unit, weighed

ROUNDED = 64.0  # roundings of the largest answer: what a line is missed by for no other reason
ALIKE = 1e-6  # of the way that z alone moves answers: heads that differ by less come out as one in any case
SHARE = 2.0**-10  # of the weight, where the logit of a share still has its digits


def check_one_head(oracle: Oracle, readout: Readout, scale: Scale, rng: np.random.Generator) -> bool:
    """Whether three answers, two keys and their mean direction at one last token, are those of one head."""
    draws = rng.spawn(1)[0]  # so that what follows is the same whether this was looked at or not
    q = scale.last * unit(draws.standard_normal(oracle.dim))
    keys = scale.key * unit(draws.standard_normal((3, oracle.dim)))
    keys[2] = (keys[0] + keys[1]) / 2
    moved, line = weighed(oracle, readout, q, keys), keys @ readout.map
    length = np.linalg.norm(line, axis=1)
    largest = np.linalg.norm(readout.bias) + np.linalg.norm(readout.B, 2) * (scale.last + scale.key)
    noise = ROUNDED * oracle.roundoff * largest / length
    share = np.sum(moved * line, axis=1) / length**2
    across = np.linalg.norm(moved - share[:, None] * line, axis=1) / length
    if np.any(across > ALIKE + noise):
        return False
    if np.any(np.minimum(share, 1 - share) < SHARE):
        return True  # saturated: what follows will tell
    s = logit(share)
    blur = (ALIKE + noise) / (share * (1 - share))
    return bool(abs(s[2] - (s[0] + s[1]) / 2) <= blur[2] + (blur[0] + blur[1]) / 2)
