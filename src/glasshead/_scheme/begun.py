"""Columns of W that were begun: scores with the first few keys are known."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .._meter import Meter, Scores


@dataclass(frozen=True)
class Begun:
    """Scores of some columns with the first `keys` keys, and the meter that measured them."""

    scores: Scores
    meter: Meter

    def __len__(self) -> int:
        return len(self.scores.t)

    @property
    def keys(self) -> int:
        return self.scores.t.shape[1]

    def __getitem__(self, columns: slice) -> Begun:
        t, lo, hi, joint = self.scores.t, self.scores.lo, self.scores.hi, self.scores.joint
        if joint is not None:
            joint = replace(joint, own=joint.own[columns], shared=joint.shared[:, columns])
        return Begun(Scores(t[columns], lo[columns], hi[columns], joint), self.meter)
