"""Methods of others, as well as float64 allows, to compare with: none of them is used by `gh.recover`."""

from .rational_interpolation import rational_interpolation as rational_interpolation
