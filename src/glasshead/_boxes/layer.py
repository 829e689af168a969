"""A layer of a Hugging Face model, called as the model itself calls it, and what is done before the first one."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._errors import OracleError

SHAPES_KEPT = 8  # shapes of batches for which what a layer gets beside its tokens is remembered
HIDDEN = "hidden_states"  # what layers call their tokens, where they are handed over by name
INSIDE_TOKENS = 3  # of the sequences at which the inside is looked at

# What models hand to a layer beside the tokens, by name, and what it does with it.
POSITION_HINTS = {
    "position_embeddings": "it turns keys and queries by their places, for which a gh.Block has `rotary`",
    "alibi": "its scores fall with the distance of tokens, for which a gh.Block has `slopes`",
}


def accepted(forward: Any, **wanted: Any) -> dict[str, Any]:
    """The keywords, of those given, that a function takes."""
    return {key: value for key, value in wanted.items() if key in inspect.signature(forward).parameters}


def layers_of(torch: Any, model: Any) -> Any:
    """The list of a model's layers, wherever it keeps it; an empty one where none is found."""
    many = getattr(model.config, "num_hidden_layers", None)
    lists = (part for part in model.base_model.modules() if isinstance(part, torch.nn.ModuleList))
    return next((part for part in lists if len(part) == many), [])


class Reached(Exception):
    """A run of a model came to the layer at which it is to end."""


@contextmanager
def ending_at(layer: Any) -> Iterator[list[Any]]:
    """Runs of a model inside end where it calls the layer; what it calls it with is put into the list."""
    caught: list[Any] = []

    def catch(_: Any, args: tuple[Any, ...], kw: dict[str, Any]) -> None:
        caught[:] = args, kw
        raise Reached

    hook = layer.register_forward_pre_hook(catch, with_kwargs=True)
    try:
        yield caught
    except Reached:
        pass
    finally:
        hook.remove()


class Cut:
    """A layer of a model, called as the model calls it.

    What the model hands to it beside the tokens (masks, positions, turned coordinates) depends on the shape of a batch
    alone, which `look` makes sure of; it is caught on a run of the model that ends there.
    """

    def __init__(self, torch: Any, model: Any, layer: Any):
        self.torch, self.model, self.layer = torch, model, layer
        self.known: dict[tuple[int, int], tuple[tuple[Any, ...], dict[str, Any]]] = {}

    def caught(self, tokens: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        base, name, shape = self.model.base_model, type(self.layer).__name__, tuple(tokens.shape)
        try:
            with ending_at(self.layer) as caught, self.torch.no_grad():
                base(inputs_embeds=tokens, **accepted(base.forward, use_cache=False))
        except Exception as error:
            raise OracleError(
                f"the model raised {type(error).__name__}: {error} (asked: {shape}, up to its {name})"
            ) from error
        if not caught:
            raise OracleError(f"expected the model to call its {name}, which it did not")
        return caught[0], caught[1]

    def zeros(self, batch: int, length: int, dtype: Any, device: Any) -> Any:
        dim = self.model.get_input_embeddings().embedding_dim
        return self.torch.zeros(batch, length, dim, dtype=dtype, device=device)

    def look(self, dtype: str, device: Any) -> tuple[int, list[str]]:
        """The length of the layer's tokens, which need not be that of the model's, and what it is told of places."""
        tokens = self.zeros(1, INSIDE_TOKENS, getattr(self.torch, dtype), device)
        args, kw = self.caught(tokens)
        other_args, other_kw = self.caught(tokens + self.torch.linspace(1, 2, tokens.shape[-1]).to(tokens))
        pairs = [
            *zip(args[1:], other_args[1:], strict=True),
            *((kw[key], other_kw[key]) for key in kw if key != HIDDEN),
        ]
        if not all(same_numbers(*pair) for pair in pairs):
            words = "is handed something else that depends on the model's tokens"
            raise ValueError(f"expected a layer that can be cut out; this {type(self.layer).__name__} {words}")
        return (args[0] if args else kw[HIDDEN]).shape[-1], told_of_places(kw)

    def __call__(self, X: Any) -> Any:
        shape = X.shape[0], X.shape[1]
        if shape not in self.known:
            if len(self.known) >= SHAPES_KEPT:
                self.known.pop(next(iter(self.known)))
            self.known[shape] = self.caught(self.zeros(*shape, X.dtype, X.device))
        args, kw = self.known[shape]
        answers = self.layer(X, *args[1:], **kw) if args else self.layer(**{**kw, HIDDEN: X})
        return answers[0] if isinstance(answers, tuple) else answers


def same_numbers(one: Any, other: Any) -> bool:
    """Whether a layer is handed the same numbers twice."""
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same_numbers, one, other))
    return one.equal(other) if hasattr(one, "equal") else True


def told_of_places(kw: dict[str, Any]) -> list[str]:
    """What a layer makes of the places of tokens, by what it is handed."""
    said = [words for key, words in POSITION_HINTS.items() if kw.get(key) is not None]
    turns = kw.get("position_embeddings")
    if isinstance(turns, tuple) and all(
        part.element_size() == 8 and bool((part == part.float()).all()) for part in turns
    ):
        said.append("its cosines and sines are those of float32: rotary to seven digits only")
    return said


def front(torch: Any, model: Any, layers: Any, dim: int, dtype: str, device: Any) -> list[str]:
    """What a model does to tokens before its first layer sees them, and whether that depends on their place."""
    inside = {part for layer in layers for part in layer.modules()}
    ran: dict[str, None] = {}
    hooks = [
        part.register_forward_hook(lambda *_, path=path: ran.setdefault(path))
        for path, part in model.base_model.named_modules()
        if part not in inside and not list(part.children()) and any(True for _ in part.parameters())
    ]
    token = torch.tensor(np.random.default_rng(0).standard_normal(dim), dtype=getattr(torch, dtype), device=device)
    try:
        args, kw = Cut(torch, model, layers[0]).caught(token.expand(1, INSIDE_TOKENS, dim).clone())
    finally:
        for hook in hooks:
            hook.remove()
    seen = (args[0] if args else kw[HIDDEN])[0]
    if seen.shape[-1] == dim and bool((seen == token).all()):
        return ["tokens reach its first layer as they are", *told_of_places(kw)]
    names = ", ".join(ran) or "something without parameters"
    if bool((seen == seen[0]).all()):
        return [f"in front of its first layer stand {names}, which change all tokens alike"]
    words = "which change tokens by their place: gh.recover finds vectors that are added"
    words += ", and layer=0 cuts the first layer out"
    return [f"in front of its first layer stand {names}, {words}"]
