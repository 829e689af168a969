"""`gh.from_transformers`: a Hugging Face model, asked with vectors in place of token ids, or one of its layers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._oracles import SINGLE, Oracle, ValueOracle
from .._types import no_type_check
from .._validate import whole
from .base import needs, opened
from .tensors import TensorBox, format_of, refuse_training

OUTPUTS = "hidden", "logits"
KEPT = 8  # shapes of batches for which what a layer gets beside its tokens is remembered
POINTS, STEP = 8, 2.0**-26  # along a line so short that a smooth box is straight there up to float64's roundoff
BENT = 2.0**-40  # of an answer: more than sums in float64 explain, much less than one rounding to float32 does
TOKENS = 3  # of the sequences at which the inside is looked at

# What models hand to a layer beside the tokens, by name, and what it does with it.
PLACES = {
    "position_embeddings": "it turns keys and queries by their places, as gh.Rotary does",
    "alibi": "its scores fall with the distance of tokens (ALiBi), which gh.Rotary has as well",
}


@no_type_check
def from_transformers(
    model: Any,
    layer: int | None = None,
    output: str = "hidden",
    *,
    answers: str = "value",
    max_norm: float | None = None,
    **promise: Any,
) -> Oracle:
    """A Hugging Face model as an oracle, or one of its layers cut out.

    >>> model = transformers.BertModel(config).double().eval()
    >>> oracle = gh.from_transformers(model, layer=0)
    >>> oracle.dim == config.hidden_size
    True

    The model is asked through `inputs_embeds`, vectors in place of token ids, and answers for the last of them: with
    `output="hidden"` its last hidden state, with `output="logits"` what its head makes of it. With `layer` the tokens
    are the input of that layer, 0 the first, and the answer is its output; the layer gets masks and rotary positions as
    the model itself hands them to it. `oracle.notes` says what stands in front of the first layer (position vectors,
    token types, a LayerNorm; tokens that are changed by their place are refused by `gh.recover`), how many layers there
    are (it sees through one), and which parts of a float64 model compute in float32 nevertheless.

    The model must be in evaluation mode, and is never changed. The other keywords are those of `gh.ValueOracle` or,
    with `answers="sign"`, of `gh.SignOracle`.
    """
    transformers = needs("transformers", "transformers")
    torch = needs("torch", "transformers")
    check_model(transformers, model, output)
    notes = refuse_training(model)
    formats, device, said = format_of(model)
    layers = layers_of(torch, model)
    if layer is None:
        ask, dim = whole_model(model, output), model.get_input_embeddings().embedding_dim
        notes += front(torch, model, layers, dim, formats[0], device) if len(layers) else []
        if len(layers) > 1:
            notes.append(f"it has {len(layers)} layers, and gh.recover sees through one: layer= cuts one out")
    else:
        if output != "hidden":
            raise ValueError(f"expected output='hidden' with layer=: a layer has no logits; got output={output!r}")
        if not 0 <= whole(layer, "layer") < len(layers):
            where = f"one of 0 to {len(layers) - 1}" if len(layers) else "None, since no list of layers was found"
            raise ValueError(f"expected layer to be {where}, got {layer}: gh.from_torch(part, dim) asks any part")
        ask = Cut(torch, model, layers[layer])
        dim, places = ask.look(formats[0], device)
        notes += [f"layer {layer} of {len(layers)}, a {type(layers[layer]).__name__}, is asked alone", *places]
    box = TensorBox(ask, formats[0], device)
    kw, asked = {"max_norm": max_norm, **box.promise, **promise}, 0
    if formats[0] == "float64":
        look = ValueOracle(box, dim, max_norm=max_norm)
        if read_rounding(look):
            notes.append(words_for_rounding(torch, model))
            kw["rounds"] = SINGLE
        asked = look.queries
    return opened(box, dim, answers=answers, notes=[*notes, *said, *box.notes], asked=asked, **kw)


def check_model(transformers: Any, model: Any, output: Any) -> None:
    """Refuses what cannot be asked with vectors, or has no such output."""
    if not isinstance(model, transformers.PreTrainedModel):
        fix = "for another module call gh.from_torch(module, dim)"
        raise TypeError(f"expected a model of transformers, got {type(model).__name__}; {fix}")
    if output not in OUTPUTS:
        raise ValueError(f"expected output to be one of {OUTPUTS}, got {output!r}")
    if model.config.is_encoder_decoder:
        words = f"got {type(model).__name__}, an encoder and a decoder"
        raise ValueError(f"expected a model with one stack of layers, {words}: pass model.get_encoder()")
    if "inputs_embeds" not in inspect.signature(model.forward).parameters:
        words = f"got {type(model).__name__}, which does not: ask a layer of it with gh.from_torch(layer, dim)"
        raise ValueError(f"expected a model that takes inputs_embeds, {words}")
    if output == "logits" and model is model.base_model:
        words = f"got {type(model).__name__}: ask output='hidden', or a model with a head, such as ..ForCausalLM"
        raise ValueError(f"expected a model with logits, {words}")


def layers_of(torch: Any, model: Any) -> Any:
    """The list of a model's layers, wherever it keeps it; an empty one where none is found."""
    many = getattr(model.config, "num_hidden_layers", None)
    lists = (part for part in model.base_model.modules() if isinstance(part, torch.nn.ModuleList))
    return next((part for part in lists if len(part) == many), [])


def accepted(forward: Any, **wanted: Any) -> dict[str, Any]:
    """Those keywords that a function takes."""
    return {key: value for key, value in wanted.items() if key in inspect.signature(forward).parameters}


def whole_model(model: Any, output: str) -> Any:
    """The function from tokens to hidden states or logits, of which only the last are asked for where that is known."""
    asked = model.base_model if output == "hidden" else model
    kw = accepted(asked.forward, use_cache=False, logits_to_keep=1)
    key = "last_hidden_state" if output == "hidden" else "logits"

    def ask(X: Any) -> Any:
        found = asked(inputs_embeds=X, **kw)
        if key not in found:
            raise ValueError(f"expected {type(asked).__name__} to answer {key}, got {list(found)}")
        return found[key]

    return ask


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
    alone; it is caught on a run of the model that ends there.
    """

    def __init__(self, torch: Any, model: Any, layer: Any):
        self.torch, self.model, self.layer = torch, model, layer
        self.known: dict[tuple[int, int], tuple[tuple[Any, ...], dict[str, Any]]] = {}

    def caught(self, tokens: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        base = self.model.base_model
        with ending_at(self.layer) as caught, self.torch.no_grad():
            base(inputs_embeds=tokens, **accepted(base.forward, use_cache=False))
        if not caught:
            raise ValueError(f"expected the model to call its {type(self.layer).__name__}, which it did not")
        return caught[0], caught[1]

    def zeros(self, batch: int, length: int, dtype: Any, device: Any) -> Any:
        dim = self.model.get_input_embeddings().embedding_dim
        return self.torch.zeros(batch, length, dim, dtype=dtype, device=device)

    def look(self, dtype: str, device: Any) -> tuple[int, list[str]]:
        """The length of the layer's tokens, which need not be that of the model's, and what it is told of places."""
        args, kw = self.caught(self.zeros(1, 1, getattr(self.torch, dtype), device))
        told = [words for key, words in PLACES.items() if kw.get(key) is not None]
        return (args[0] if args else kw["hidden_states"]).shape[-1], told

    def __call__(self, X: Any) -> Any:
        shape = X.shape[0], X.shape[1]
        if shape not in self.known:
            if len(self.known) >= KEPT:
                self.known.pop(next(iter(self.known)))
            self.known[shape] = self.caught(self.zeros(*shape, X.dtype, X.device))
        args, kw = self.known[shape]
        answers = self.layer(X, *args[1:], **kw) if args else self.layer(**{**kw, "hidden_states": X})
        return answers[0] if isinstance(answers, tuple) else answers


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
        args, kw = Cut(torch, model, layers[0]).caught(token.expand(1, TOKENS, dim).clone())
    finally:
        for hook in hooks:
            hook.remove()
    seen = (args[0] if args else kw["hidden_states"])[0]
    if seen.shape[-1] == dim and bool((seen == token).all()):
        return ["tokens reach its first layer as they are"]
    names = ", ".join(ran) or "something without parameters"
    if bool((seen == seen[0]).all()):
        return [f"in front of its first layer stand {names}, which change all tokens alike"]
    words = "which change tokens by their place: gh.recover refuses that, and layer=0 cuts the first layer out"
    return [f"in front of its first layer stand {names}, {words}"]


def read_rounding(oracle: Oracle) -> bool:
    """Whether a box of float64 rounds to fewer digits inside: its answers along a very short line are not straight."""
    rng, longest = np.random.default_rng(1), min(1.0, oracle.reach)
    start, way = (
        part * longest / 2 / np.linalg.norm(part, axis=1).max() for part in rng.standard_normal((2, TOKENS, oracle.dim))
    )
    answers = oracle(start + STEP * np.arange(POINTS)[:, None, None] * way)
    bends = np.abs(np.diff(answers, n=2, axis=0)).max()
    return bool(bends > BENT * np.abs(answers).max())


def words_for_rounding(torch: Any, model: Any) -> str:
    """Which parts of a float64 model compute in float32, as far as they can be told one by one."""
    found: dict[str, None] = {}
    for part in model.modules():
        if "Norm" in type(part).__name__ and (weight := getattr(part, "weight", None)) is not None:
            with torch.no_grad():
                token = torch.linspace(1, 2, len(weight), dtype=weight.dtype, device=weight.device)
                nudged = token * (1 + 2.0**-40 * torch.arange(len(weight), device=weight.device))
                if torch.equal(part(token[None, None]), part(nudged[None, None])):
                    found.setdefault(type(part).__name__)
    if model.config._attn_implementation == "eager":
        found.setdefault("attention with attn_implementation='eager'")
    names = " and ".join(found) or "some part"
    return f"{names} may compute in float32 inside: answers in float64 have about seven digits that are right"
