"""A language model of one layer behind vLLM on the CPU: its answers against the model's own, and what is recovered."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import glasshead as gh

from .environments import PACKAGES
from .inference import post
from .servers import blank, say, vllm

HIDDEN, HEADS, VOCABULARY = 64, 2, 128  # vLLM on the CPU has heads of 32, and none of 16
LENGTHS, EACH = (1, 2, 3, 8, 33, 64), 16  # of the sequences that are compared
SCALE = 0.2  # of random weights: attention is far from even, and logits are about 2
SERVER, PROTOCOL = "vLLM on the CPU", "completions with prompt_embeds"
MOST = 1e-5  # of an answer from the model's own number
SHORT = 500  # characters of a refusal


def written(folder: Path, heads: int = HEADS) -> Path:
    """The folder of a LLaMA of one layer with random weights, as transformers writes it."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=1,
        num_attention_heads=heads,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=None,
        initializer_range=SCALE,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).float().save_pretrained(folder / f"llama-{heads}")
    return folder / f"llama-{heads}"


def logits_of(model: Path) -> Callable[[np.ndarray], np.ndarray]:
    """What transformers computes in float32, one sequence after the other."""
    import torch
    from transformers import LlamaForCausalLM

    network = LlamaForCausalLM.from_pretrained(model, dtype=torch.float32).eval()

    def logits(X: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            each = [network(inputs_embeds=torch.tensor(x[None], dtype=torch.float32)).logits[0, -1] for x in X]
        return torch.stack(each).double().numpy()

    return logits


def rows(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A row of the record for each way in which vLLM is started, and each that is asked of it; and what it does."""
    embeds, float32, does = "--enable-prompt-embeds", ("--dtype", "float32"), {}
    filled = served(folder, HEADS, (embeds, *float32, "--logprobs-mode", "raw_logits"), does=does)
    filled += served(folder, HEADS, (embeds, *float32))
    filled += served(folder, HEADS, (embeds, "--dtype", "bfloat16"), exact=False)
    filled += served(folder, 2 * HEADS, (embeds, *float32), exact=False)
    return filled + served(folder, HEADS, float32, exact=False), does


def served(
    folder: Path,
    heads: int,
    options: tuple[str, ...],
    exact: bool = True,
    does: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Rows for one start of the server: the adapter's answers, and recoveries; `does` is filled where it is given."""
    version, model, most = PACKAGES["vllm"].partition("==")[2], written(folder, heads), MOST if exact else None
    size = f"d = {HIDDEN}, {heads} heads of {HIDDEN // heads}, {VOCABULARY} tokens"
    box = f"a LLaMA of one layer, {size}, served with {' '.join(options)}"
    try:
        with vllm(folder, model, *options) as url:
            filled = [compared(url, logits_of(model), box, most)]
            filled += [recovered(url, box, family) for family in ("auto", "block") if exact]
            if does is not None:
                does |= what_it_says(url)
    except Exception as error:
        say(f"{box}: {error}")
        filled = [blank(PROTOCOL, box, "answers", most) | {"refusal": f"not run: {type(error).__name__}: {error}"}]
    return [{"server": SERVER, "version": version} | each for each in filled]


def what_it_says(url: str) -> dict[str, Any]:
    """Status and body for requests that are refused."""
    right, short = encoded(np.zeros((1, HIDDEN), "float32")), encoded(np.zeros((1, HIDDEN // 2), "float32"))
    wrong = {
        "token ids beyond those it gives": {"logprobs": 1, "logprob_token_ids": [0] * (VOCABULARY + 1)},
        "a token that is not in the vocabulary": {"logprobs": 1, "logprob_token_ids": [VOCABULARY]},
        "many prompts": {"prompt_embeds": [right] * 1025},
        "vectors of half the length": {"prompt_embeds": [short]},
        "whole numbers": {"prompt_embeds": [encoded(np.zeros((1, HIDDEN), int))]},
        "an unknown model": {"model": "nobody"},
        "nothing": {"prompt_embeds": []},
    }
    usual = {"model": "llama", "prompt_embeds": [right], "max_tokens": 1}
    return {words: list(post(f"{url}/v1/completions", {**usual, **changed})) for words, changed in wrong.items()}


def encoded(x: np.ndarray) -> str:
    import torch

    file = io.BytesIO()
    torch.save(torch.tensor(x), file)
    return base64.b64encode(file.getvalue()).decode()


def opened(url: str) -> gh.Oracle:
    return gh.from_completions(url, "llama", range(VOCABULARY), dim=HIDDEN)


def compared(url: str, logits: Callable[[np.ndarray], np.ndarray], box: str, most: float | None) -> dict[str, Any]:
    """The adapter's answers against the model's own; the error is absolute, the largest."""
    filled = blank(PROTOCOL, box, "answers against the model's own", most)
    rng = np.random.default_rng(5)
    try:
        oracle = opened(url)
        filled["notes"] = [note.replace(url, "http://HOST") for note in oracle.notes]
        worst = 0.0
        for length in LENGTHS:
            X = rng.standard_normal((EACH, length, HIDDEN))
            own, answers = logits(X), oracle(X)
            own = own if answers.shape == own.shape else own[:, 1:] - own[:, :1]
            worst = max(worst, float(np.abs(answers - own).max()))
        sizes = f"{answers.shape[1]} numbers for each of {len(LENGTHS) * EACH} sequences of 1 to 64 vectors"
        filled |= {"found": sizes, "queries": oracle.queries, "error": worst}
    except gh.GlassheadError as error:
        filled["refusal"] = in_short(error, url)
    say(f"{box}: {filled['found']}, {filled['error']}, {filled['refusal']}")
    return filled


def recovered(url: str, box: str, family: str) -> dict[str, Any]:
    """What a recovery makes of the model."""
    filled = blank(PROTOCOL, box, f"gh.recover(gh.from_completions(..), family={family!r})", None)
    oracle = opened(url)
    try:
        found = gh.recover(oracle, family=family)
        filled |= {"found": f"{found.family}, rank {found.rank}", "bound": found.bound, "error": found.residual}
    except gh.GlassheadError as error:
        filled["refusal"] = in_short(error, url)
    filled["queries"] = oracle.queries
    say(f"{box}, {family}: {filled['found']}, {filled['error']}, {filled['refusal']}")
    return filled


def in_short(error: Exception, url: str) -> str:
    return f"{type(error).__name__}: {error}".replace(url, "http://HOST")[:SHORT]
