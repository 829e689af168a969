"""Shapes in signatures, `Float[np.ndarray, "n d"]`: checked by jaxtyping and beartype in the tests, free elsewhere.

`ArrayLike` is numpy's for type checkers alone, `Answering` what a box is to a user, (B, N, d) tokens to B answers: what
is wrong with an argument, `_validate` says better than beartype.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from jaxtyping import Float as Float
    from numpy.typing import ArrayLike as ArrayLike
    from numpy.typing import DTypeLike as DTypeLike

    Answering = Callable[[np.ndarray], ArrayLike]
else:
    Answering = ArrayLike = DTypeLike = Any
    try:
        from jaxtyping import Float
    except ImportError:  # users do not need the test tools

        class Float:
            def __class_getitem__(cls, item):
                return item[0]


F = TypeVar("F")


def no_type_check(function: F) -> F:
    """For a function that users call: it looks at its arguments itself, and says in a sentence what it expected.

    The tests' import hook knows the decorator by its name and leaves such a function alone; to other type checkers its
    signature stays what it is, as with `typing.no_type_check` it would not.
    """
    return function
