"""The law of the odds of one head behind an unknown network, of which W need not be known well.

A sequence is answered like a shorter one that has the same attention output, and for copies of one key beside a last
token a single score says which one that is. The score at which two copies are answered like their shorter sequence is
the box's own, and must do for eight copies: a second head shows, though errors of W within its bound would hide it.
"""

from __future__ import annotations

import numpy as np

from .._errors import COPIED_KEY, Evidence
from .._learned import LearnedFront, head_length, typical_score_error
from .._models import FrontHead
from .._oracles import Oracle
from .answered import NEIGHBOUR_TIMES, ask_by_length
from .compared import Compared
from .odds import read_thrice, relative_error, with_key_copies
from .ordinary import gaussian_sequences
from .telling import ODDS_COPIES, answer_error

LEAST_COPIES = 2  # the shorter sequence of one copy may be itself
FRONT_PROBES = 8  # pairs of a key and a last token: at some of them two heads may happen to agree
DRAWN = 3 * FRONT_PROBES  # from which those are chosen whose weights change most from few copies to many
SUITED_TIMES = 1.0, 2.0  # times the tokens that suit the head, in turn: another may show at other lengths
MOST_BENT = 0.1  # of how far answers move with the score: where they bend by more, they say little about it
SCORE_STEP = 0.5  # of what bounds leave open of a score, from which it is seen how much that moves an answer
SECOND_ORDER_TIMES = 1.25  # times what the errors of the answers add up to, which is right if they are small


def check_odds_behind(oracle: Oracle, learned: LearnedFront, rng: np.random.Generator) -> Evidence | None:
    """What breaks the law, where answers are as accurate as promised or as their format is; 9 queries for a probe."""
    suited = head_length(learned.model) / (2 * float(np.sqrt(oracle.dim)))
    sizes = suited * np.resize(SUITED_TIMES, DRAWN)
    pairs = sorted(gaussian_sequences(oracle, (2,) * DRAWN, sizes, rng), key=lambda x: uneven(learned.model, x))
    chosen = pairs[:FRONT_PROBES]
    most = None
    if oracle.exact:
        asked = [with_key_copies(pair) for pair in chosen]
        most = relative_error(oracle, read_thrice(oracle, asked), ask_by_length(oracle, asked))
    found = (check_pair(oracle, learned, pair, most) for pair in chosen)
    return next((evidence for evidence in found if evidence is not None), None)


def uneven(head: FrontHead, pair: np.ndarray) -> float:
    """How far the score of the key is from where few copies weigh as much less than the last token as many do more."""
    key, last = head.seen(pair)
    score = float((key - last) @ head.keys_against(last[None])[0])
    return abs(score + 0.5 * float(np.log(LEAST_COPIES * ODDS_COPIES)))


def check_pair(oracle: Oracle, learned: LearnedFront, pair: np.ndarray, most: float | None) -> Evidence | None:
    """The law for copies of one key, where answers are off by that share of their size at most; None, too, where
    nothing can be said."""
    few, many = with_key_copies(pair, LEAST_COPIES), with_key_copies(pair)
    off = NEIGHBOUR_TIMES * typical_score_error(learned.model.seen(pair), learned.bound, learned.bound_key_bias)

    def says(share: float, X: np.ndarray) -> np.ndarray:
        return ask_by_length(with_score_off(learned.model, pair, share * off), [X])[0]

    ends = [with_score_off(learned.model, pair, side * off) for side in (-1.0, 1.0)]
    if not all(model.can_shorten(X) for model in ends for X in (few, many)):
        return None
    got = ask_by_length(oracle, [few, many])
    low, middle, high = (says(share, few) for share in (-1.0, 0.0, 1.0))
    way, bend = (high - low) / 2, (high + low) / 2 - middle
    slope = float(np.linalg.norm(way))
    if not slope > np.linalg.norm(bend) / MOST_BENT:
        return None
    share = float(np.clip((got[0] - middle) @ way / slope**2, -1.0, 1.0))
    share = float(np.clip(share + (got[0] - says(share, few)) @ way / slope**2, -1.0, 1.0))
    near, want, aside = says(share, few), says(share, many), says(share - np.copysign(SCORE_STEP, share), many)
    steep = float(np.abs(aside - want).max()) / SCORE_STEP / slope * np.sqrt(len(want))
    made = np.stack([got[1], want, got[0], near])
    errors = answer_error(oracle, np.full(len(made), np.abs(made).max()), made, most)
    left = float(np.abs(got[0] - near).max())
    allowed = SECOND_ORDER_TIMES * float(errors @ [1.0, 1.0, steep, steep] + steep * left)
    return Compared([many], got[1:], want[None], allowed).evidence(COPIED_KEY)


def with_score_off(head: FrontHead, pair: np.ndarray, by: float) -> FrontHead:
    """The head with the score of the first token over that of the last one off by so much."""
    apart = np.subtract(*head.seen(pair))
    key_bias = head.key_bias + by * apart / float(apart @ apart)
    return FrontHead(head.W, key_bias=key_bias, behind=head.behind, residual=head.residual, norm=head.norm)
