"""The signal that vector answers do not show the heads of this box, though one combination of them may."""

from __future__ import annotations


class NeedsScalarRoute(Exception):
    """This box is outside what the vector route can read; says why. The scalar learner on a combination may do it."""
