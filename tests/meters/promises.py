"""Oracles that promise what a test says, for parts that look at the promise alone."""

from __future__ import annotations

import numpy as np

import glasshead as gh


class Promising(gh.Oracle):
    def __init__(self, dim, f=None, *, tolerance=0.0, rtol=0.0, roundoff=0.0, max_norm=None, answers="value"):
        self.dim, self.tolerance, self.rtol, self.max_norm, self.answers = dim, tolerance, rtol, max_norm, answers
        self.f, self.rounds, self.asked = f, roundoff, []

    @property
    def roundoff(self):
        return self.rounds

    def __call__(self, X):
        self.asked.append(np.array(X))
        self.queries += len(X)
        return self.f(X)


class Relayed(Promising):
    """What a wrapper promises of a box that promises something else."""

    def __init__(self, dim, f=None, *, inner=None, **promise):
        super().__init__(dim, f, **promise)
        self.inside = Promising(dim, f, **promise | (inner or {}))

    @property
    def box(self):
        return self.inside
