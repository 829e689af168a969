"""The finest simultaneous block-diagonalisation of symmetric matrices."""

from .blockdiag import blockdiag as blockdiag
