"""Shapes in signatures, `Float[np.ndarray, "n d"]`: checked by jaxtyping and beartype in the tests, free elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtyping import Float as Float
else:
    try:
        from jaxtyping import Float
    except ImportError:  # users do not need the test tools

        class Float:
            def __class_getitem__(cls, item):
                return item[0]
