"""`gh.from_torch`: a torch module, or any callable on tensors, as an oracle."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .._errors import OracleError
from .._oracles import ROUNDOFF, Oracle
from .._types import no_type_check
from .._validate import positive, require_callable, whole
from .base import check_box, needs
from .layout import Layout, checked_order, checked_place, find_layout
from .tensors import Chosen, TensorBox, checked_output, format_of, name, refuse_training

TAKES_IDS = "argument #1 'indices' to have"  # what torch says of an embedding that is asked with vectors


@no_type_check
def from_torch(
    module: Callable[..., Any],
    dim: int,
    place: int = -1,
    output: Chosen = None,
    *,
    batch_first: bool | None = None,
    dtype: Any = None,
    device: Any = None,
    answers: str = "value",
    max_norm: float | None = None,
    **promise: Any,
) -> Oracle:
    """A torch module, or any callable on tensors, as an oracle for tokens of length `dim`.

    >>> layer = torch.nn.MultiheadAttention(16, 2, batch_first=True, dtype=torch.float64).eval()
    >>> found = gh.recover(gh.from_torch(layer, 16))
    >>> gh.distance(found.model, gh.MultiHead.from_torch(layer)) < 1e-9
    True

    It takes a tensor `(B, N, d)`, or `(N, B, d)`, which is found out unless `batch_first` says it, and answers for
    each sequence, `(B,)` or `(B, k)`, or for each token, `(B, N)` or `(B, N, k)`. The last row of a sequence, its query
    token, is put at `place`, -1 for the last or 0 for the first, and answered there. `output` chooses: a name in a
    dict, an integer or a slice among the k numbers, or a callable from what is returned to a tensor; of a tuple the
    first is read. `nn.MultiheadAttention` is asked with the query token alone as query.

    Tensors are made in the format of the module's parameters on their device, or in `dtype` on `device`; for a callable
    in those of the modules that it uses by name, or in the first of float64, float32, bfloat16 and float16 that it
    takes. Gradients are off. A module in training mode with dropout at work is refused; it is never changed. The other
    keywords are those of `gh.ValueOracle` or, with `answers="sign"`, of `gh.SignOracle`. `oracle.notes` says what was
    found out.
    """
    torch = needs("torch", "torch")
    require_callable(module)
    dim, layout = whole(dim, "dim", least=1), Layout(place=checked_place(place))
    output, batch_first = checked_output(output), checked_order(batch_first)
    owner = owner_of(torch, module)
    notes = refuse_training(owner) if owner is not None else []
    formats, where, said = ([*ROUNDOFF], "cpu", []) if owner is None else format_of(owner)
    formats = formats if dtype is None else [checked_format(dtype)]
    own_way = known_way(torch, module, dim, layout, batch_first)
    if own_way is None:
        longest = 1.0 if max_norm is None else min(1.0, positive(max_norm, "max_norm"))
        box, asked = find_box(module, dim, longest, layout, batch_first, formats, device or where, output)
    else:
        ask, layout = own_way
        box, asked = TensorBox(ask, formats[0], device or where, output, layout), 0
    notes += [*said, *box.notes]
    kw: dict[str, Any] = {"max_norm": max_norm, **box.promise, **promise}
    return check_box(box, dim, answers=answers, notes=notes, asked=asked, **kw)


def owner_of(torch: Any, module: Any) -> Any:
    """The module whose parameters a callable computes with: itself, the one it is a method of, or those that a function
    uses by name; None where there is no such thing."""
    for one in (module, getattr(module, "__self__", None)):
        if isinstance(one, torch.nn.Module):
            return one
    if not inspect.isfunction(module):
        return None
    try:
        used = inspect.getclosurevars(module)
    except ValueError:  # of a name that has no value yet
        return None
    found = [one for one in (*used.nonlocals.values(), *used.globals.values()) if isinstance(one, torch.nn.Module)]
    if len(found) <= 1:
        return found[0] if found else None
    group = torch.nn.ModuleList(found)
    group.training = False  # of the list alone
    return group


def checked_format(dtype: Any) -> str:
    if (called := name(dtype)) not in ROUNDOFF:
        raise ValueError(f"expected dtype to be one of {', '.join(ROUNDOFF)}, got {dtype!r}")
    return called


def find_box(
    module: Callable[..., Any],
    dim: int,
    longest: float,
    layout: Layout,
    batch_first: bool | None,
    formats: list[str],
    device: Any,
    output: Chosen,
) -> tuple[TensorBox, int]:
    """A box around a callable in the first of some formats that it takes, with its layout, and the sequences asked."""
    failed = None
    for each in formats:
        box = TensorBox(module, each, device, output, layout)
        try:
            box.layout, asked = find_layout(box.read_raw, dim, longest, layout, batch_first)
            return box, asked
        except OracleError as error:
            failed = failed or error
    words = f"asked on {device} in {', '.join(formats)}: dtype= and device= choose others"
    if TAKES_IDS in str(failed):
        words = "it takes token ids: pass a callable that takes vectors in their place, or gh.from_transformers(model)"
    raise OracleError(f"{failed}; {words}", getattr(failed, "query", None)) from failed


def known_way(
    torch: Any, module: Any, dim: int, layout: Layout, batch_first: bool | None
) -> tuple[Callable[[Any], Any], Layout] | None:
    """How a module of torch itself wants to be asked, or None for one that is not known."""
    nn = torch.nn
    if isinstance(module, nn.Transformer | nn.TransformerDecoder | nn.TransformerDecoderLayer):
        words = f"got an nn.{type(module).__name__}, which attends to a second one"
        fix = "pass lambda X: module(X, memory.expand(len(X), -1, -1))"
        raise ValueError(f"expected a module that takes one sequence, {words}: {fix}")
    if isinstance(module, nn.MultiheadAttention):
        heads = module
    elif isinstance(module, nn.TransformerEncoderLayer):
        heads = module.self_attn
    elif isinstance(module, nn.TransformerEncoder):
        heads = module.layers[0].self_attn
    else:
        return None
    if not dim == heads.embed_dim == heads.kdim == heads.vdim:
        sizes = dict.fromkeys((heads.embed_dim, heads.kdim, heads.vdim))
        words = f"tokens of length {' and '.join(map(str, sizes))}"
        raise ValueError(f"expected dim, the length of tokens, to be the layer's, got dim={dim} for {words}")
    if batch_first not in (None, heads.batch_first):
        raise ValueError(f"expected batch_first={heads.batch_first}, as the layer itself says, got {batch_first}")
    layout = replace(layout, batch_first=heads.batch_first)
    if module is not heads:
        return module, layout

    def ask(X: Any) -> Any:
        places = slice(-1, None) if layout.place == -1 else slice(1)
        return module(X[:, places] if layout.batch_first else X[places], X, X, need_weights=False)[0]

    return ask, layout
