"""Endpoints whose answers are not numbers to learn from as they are, but become such.

>>> box = gh.answers.log_odds(lambda X: np.full((len(X), 2), 0.5), 0, 1)
>>> box(np.zeros((3, 1, 4)))
array([0., 0., 0.])
"""

from ._log_odds import log_odds as log_odds
