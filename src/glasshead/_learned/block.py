"""What the learner of whole blocks hands back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._models import Block
from .._recovery import Recovery
from .kinds import in_columns
from .learned import Attending, HeldOut, free_parameters, typical_score_error

UNLUCKY = 0.01  # the probability with which fresh tokens may miss an error of W that is larger than the bound
STAYS_A_BOX = "what is behind stays a box, which answers are asked of"


@dataclass(frozen=True, kw_only=True)
class LearnedBlock(Attending):
    """Heads inside a block. `error` is an estimate of the worst relative error: what fresh tokens, read head by head,
    differ by. From the same tokens `fresh_bound` bounds the error of every head's W with a confidence of `1 - UNLUCKY`;
    it is for the user, and the judge, who holds bounds that follow from a promise against answers, does without.
    `reach` is the longest token that may be asked about, `outputs` how many numbers an answer has, `free` how many
    directions answers do not see at a token."""

    checked_by = "_checks:check_held_out_block"
    read_again = True

    model: Block
    rank: tuple[int, ...]
    value_rank: tuple[int, ...]
    bound: None = None
    bound_v: None = None
    confidence: None = None
    error: float
    fresh_bound: float | None = None
    reach: float
    outputs: int
    free: int

    @property
    def limit(self) -> int:
        """The free parameters of all heads over the numbers per answer."""
        each = zip(self.model.heads, self.rank, self.value_rank, strict=True)
        total = sum(free_parameters(h, r, s, key_bias_in_W=in_columns(h, r)) for h, r, s in each)
        return -(-total // self.outputs)

    @property
    def words(self) -> str:
        model = self.model
        residual = {
            "assumed identity": "the residual map is assumed to be the identity, which the value maps depend on",
            "none": "there is no residual connection, and value maps are known up to one invertible map",
            "unknown": "value maps are known up to one invertible map, since nothing is assumed of the residual map",
        }[model.residual_map]
        places = {"before": "in front of", "behind": "behind"}
        kinds = {"layer": "LayerNorm", "rms": "RMSNorm"}
        norms = "".join(f", {places[norm.place]} them {kinds[norm.kind]}" for norm in model.norms)
        if model.rotary is not None:
            norms += f", rotary positions of {len(model.rotary.frequencies[0])} frequencies"
        norms += ", scores that fall with the distance" * (model.slopes is not None)
        norms += ", an unembedding" * (model.unembedding is not None)
        free = f", {self.free} free direction{'s' * (self.free != 1)}" * bool(self.free)
        ranks = ", ".join(str(rank) for rank in dict.fromkeys(self.rank))
        count = "one head" if len(self.rank) == 1 else f"{len(self.rank)} heads"
        heads = f"{count} of rank {ranks}, each W to about {self.error:.0e} of itself"
        return f"a block: {heads}{norms}{free}; {residual}; {STAYS_A_BOX}"

    def says(self, x: np.ndarray) -> bool:
        """Whether the tokens that are answered alike, with attention and without, may be asked about. One token alone
        is its own."""
        longest = np.max([np.linalg.norm(model.single_token(x)) for model in (self.model, self.flat)])
        return len(x) > 1 and bool(longest <= self.reach)  # not where one of them is no number

    def neighbours(self, share: float, count: int, rng: np.random.Generator) -> list:
        return []  # each would have to ask the box

    def hidden(self, share: float, rng: np.random.Generator) -> list:
        return []  # every W was read again, head by head

    def doubt(self, X: Sequence[np.ndarray], want: np.ndarray) -> np.ndarray:
        """As much of the range of answers as scores are typically off by."""

        def of_scores(x: np.ndarray) -> float:
            each = (typical_score_error(x, h.W_norm, float(np.linalg.norm(h.key_bias))) for h in self.model.heads)
            return self.error * max(each)

        return np.minimum(1.0, np.array([of_scores(x) for x in X])) * float(np.ptp(want, axis=0).max())

    def recovery(self, queries: int, check: HeldOut | None, seen: str = "") -> Recovery:
        """What the user gets, with a bound that is statistical."""
        found = super().recovery(queries, check, seen)
        if self.fresh_bound is None or not found.confidence:
            return found
        said = f"{found.reason}; with a confidence of {1 - UNLUCKY:.0%} every W is within the bound, by fresh tokens"
        return replace(found, bound=self.fresh_bound, confidence=1 - UNLUCKY, reason=said)
