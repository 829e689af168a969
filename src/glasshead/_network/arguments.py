"""What may be asked of `gh.recover_network`: activations by name, and arguments checked before the first query."""

from __future__ import annotations

from typing import Any

from .._oracles import InputOracle, Oracle
from .._validate import whole

SMOOTH_ACTIVATIONS = "gelu", "gelu-tanh", "silu"
PLAIN: dict[str, tuple[str, ...]] = {
    "auto": SMOOTH_ACTIVATIONS,
    "plain": SMOOTH_ACTIVATIONS,
    **{name: (name,) for name in SMOOTH_ACTIVATIONS},
}
GATED: dict[str, tuple[str, ...]] = {"auto": SMOOTH_ACTIVATIONS, "swiglu": ("silu",), "geglu": ("gelu", "gelu-tanh")}
ACTIVATION_NAMES = ("auto", *SMOOTH_ACTIVATIONS, "relu", "swiglu", "geglu")


def as_single_tokens(f: Any, dim: Any) -> Oracle:
    """An oracle on `(B, 1, d)`."""
    return f if isinstance(f, Oracle) else InputOracle(f, dim, "recover_network(f, dim)")


def check_network_arguments(activation: Any, sphere: Any, widest: Any, budget: Any, progress: Any) -> None:
    if activation not in ACTIVATION_NAMES:
        raise ValueError(
            f"expected activation to be one of {', '.join(map(repr, ACTIVATION_NAMES))}, got {activation!r}"
        )
    if not isinstance(sphere, bool):
        raise TypeError(f"expected sphere to be True or False, got {sphere!r}")
    for name, value in (("widest", widest), ("budget", budget)):
        if value is not None:
            whole(value, name, least=1)
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"expected progress to be True or a callable (done, planned, what), got {progress!r}")
