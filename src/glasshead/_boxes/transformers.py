"""`gh.from_transformers`: a Hugging Face model, asked with vectors in place of token ids, or one of its layers."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._oracles import SINGLE, Oracle, ValueOracle
from .._types import no_type_check
from .._validate import whole
from .base import check_box, needs
from .layer import INSIDE_TOKENS, Cut, accepted, front, layers_of
from .tensors import TensorBox, format_of, refuse_training

OUTPUTS = "hidden", "logits"
POINTS, STEP = 8, 2.0**-26  # along a line so short that a smooth box is straight there up to float64's roundoff
NOT_STRAIGHT = 2.0**-40  # of an answer: more than sums in float64 explain, much less than one rounding to float32 does


@no_type_check
def from_transformers(
    model: Any,
    layer: int | None = None,
    output: str = "hidden",
    *,
    token_ids: Sequence[int] | None = None,
    answers: str = "value",
    max_norm: float | None = None,
    **promise: Any,
) -> Oracle:
    """A Hugging Face model as an oracle, or one of its layers cut out.

    >>> config = transformers.BertConfig(hidden_size=16, num_attention_heads=2, intermediate_size=32)
    >>> oracle = gh.from_transformers(transformers.BertModel(config).double().eval(), layer=3)
    >>> oracle.dim, oracle.notes[0]
    (16, 'layer 3 of 12, a BertLayer, is asked alone')

    The model is asked through `inputs_embeds`, vectors in place of token ids, and answers for the last of them: with
    `output="hidden"` its last hidden state, with `output="logits"` what its head makes of it, all logits or those of
    `token_ids`. With `layer` the tokens are the input of that layer, 0 the first, and the answer is its output; the
    layer gets masks and rotary positions as the model itself hands them to it. `oracle.notes` says what stands in front
    of the first layer (position vectors, token types, a LayerNorm; tokens that are changed by their place are refused
    by `gh.recover`), how many layers there are (it sees through one), and which parts of a float64 model compute in
    float32 nevertheless.

    The model must be in evaluation mode, and is never changed. The other keywords are those of `gh.ValueOracle` or,
    with `answers="sign"`, of `gh.SignOracle`.
    """
    transformers = needs("transformers", "transformers")
    torch = needs("torch", "transformers")
    refuse_model(transformers, model, output)
    notes = refuse_training(model)
    formats, device, said = format_of(model)
    layers = layers_of(torch, model)
    if token_ids is not None and output != "logits":
        raise ValueError(f"expected output='logits' with token_ids=, got output={output!r}")
    if layer is None:
        ask, dim = whole_model(model, output, token_ids), model.get_input_embeddings().embedding_dim
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
    asked = 0
    kw: dict[str, Any] = {"max_norm": max_norm, **box.promise, **promise}
    if formats[0] == "float64":
        look = ValueOracle(box, dim, max_norm=max_norm)
        if read_rounding(look):
            notes.append(words_for_rounding(torch, model if layer is None else layers[layer], model.config))
            kw["rounds"] = SINGLE
        asked = look.queries
    return check_box(box, dim, answers=answers, notes=[*notes, *said, *box.notes], asked=asked, **kw)


def refuse_model(transformers: Any, model: Any, output: Any) -> None:
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


def whole_model(model: Any, output: str, token_ids: Sequence[int] | None) -> Any:
    """The function from tokens to hidden states or logits, of which only the last are asked for where that is known."""
    chosen = None if token_ids is None else [whole(one, "a token id", least=0) for one in token_ids]
    if chosen is not None and (not chosen or max(chosen) >= model.config.vocab_size):
        words = f"at least one number below {model.config.vocab_size}, the size of the vocabulary"
        raise ValueError(f"expected token_ids to be {words}; got {list(chosen)}")
    asked = model.base_model if output == "hidden" else model
    kw = accepted(asked.forward, use_cache=False, logits_to_keep=1)
    key = "last_hidden_state" if output == "hidden" else "logits"

    def ask(X: Any) -> Any:
        found = asked(inputs_embeds=X, **kw)
        if key not in found:
            raise ValueError(f"expected {type(asked).__name__} to answer {key}, got {list(found)}")
        return found[key] if chosen is None else found[key][..., chosen]

    return ask


def read_rounding(oracle: Oracle) -> bool:
    """Whether a box of float64 rounds to fewer digits inside: its answers along a very short line are not straight."""
    rng, longest = np.random.default_rng(1), min(1.0, oracle.reach)
    start, way = (
        part * longest / 2 / np.linalg.norm(part, axis=1).max()
        for part in rng.standard_normal((2, INSIDE_TOKENS, oracle.dim))
    )
    answers = oracle(start + STEP * np.arange(POINTS)[:, None, None] * way)
    bends = np.abs(np.diff(answers, n=2, axis=0)).max()
    return bool(bends > NOT_STRAIGHT * np.abs(answers).max())


def words_for_rounding(torch: Any, asked: Any, config: Any) -> str:
    """Which parts of a float64 model, or of a layer of it, compute in float32, as far as they can be told."""
    found: dict[str, None] = {}
    for part in asked.modules():
        if "Norm" in type(part).__name__ and getattr(part, "weight", None) is not None and part.weight.ndim == 1:
            nudges = 2.0**-40 * torch.arange(len(part.weight)).to(part.weight) ** 2
            token = torch.linspace(1, 2, len(nudges)).to(part.weight)[None, None]
            with torch.no_grad():
                if torch.equal(part(token), part(token * (1 + nudges))):
                    found.setdefault(type(part).__name__)
    attention = "attention with attn_implementation='eager'" if config._attn_implementation == "eager" else ""
    names = " and ".join(found) or attention or "some part"
    return f"{names} may compute in float32 inside: answers in float64 have about seven digits that are right"
