"""Models that are the same function as another one, and models that are not."""

from __future__ import annotations

import numpy as np

import glasshead as gh


def random_model(dim, heads, rng, *, outputs=None, key_bias=False, bias=False) -> gh.MultiHead:
    shape = () if outputs is None else (outputs,)
    made = [
        gh.Attention(
            rng.standard_normal((dim, dim)),
            rng.standard_normal((dim, *shape)),
            key_bias=rng.standard_normal(dim) if key_bias else None,
        )
        for _ in range(heads)
    ]
    return gh.MultiHead(made, bias=rng.standard_normal(shape) if bias else np.zeros(shape))


def changed(head, **other) -> gh.Attention:
    """The head with other W, v or key_bias."""
    parameters = {"W": head.W, "v": head.v, "key_bias": head.key_bias} | other
    return gh.Attention(parameters["W"], parameters["v"], key_bias=parameters["key_bias"])


def disguised(model, rng) -> gh.MultiHead:
    """The same function: a head split, a pair that cancels, one with v = 0, everything shuffled and rounded anew."""
    first, *rest = model.heads
    part, noise = np.linalg.norm(first.v) * rng.standard_normal((2, *first.v.shape))
    stranger = first.W_norm * rng.standard_normal(first.W.shape)
    heads = [
        *rest,
        changed(first, v=first.v - part),
        changed(first, v=part, W=first.W * (1 + 1e-15)),
        changed(first, v=noise, W=stranger),
        changed(first, v=-noise, W=stranger),
        changed(first, v=0 * noise, W=stranger.T),
    ]
    return gh.MultiHead([heads[h] for h in rng.permutation(len(heads))], bias=model.bias)


def nearby(model, what, size, rng) -> gh.MultiHead:
    """One parameter of one head moved: W by `size` times its length, v by that of the longest v, and so on."""
    h = rng.integers(len(model.heads))
    heads, bias = list(model.heads), model.bias
    if what == "bias":
        bias = bias + size * max(1.0, float(np.linalg.norm(bias)))
    else:
        old = getattr(heads[h], what)
        step = rng.standard_normal(old.shape)
        length = {
            "W": heads[h].W_norm,
            "v": max(np.linalg.norm(one.v) for one in heads),
            "key_bias": max(np.linalg.norm(heads[h].key_bias), np.sqrt(heads[h].W_norm)),
        }[what]
        heads[h] = changed(heads[h], **{what: old + size * length * step / np.linalg.norm(step)})
    return gh.MultiHead(heads, bias=bias)


def two_pairs_and_a_silent_one(rng, generic=3, dim=6) -> tuple[gh.MultiHead, gh.MultiHead]:
    """`generic` heads, and `generic + 3` heads that are the same: two of them in two parts, and one with v = 0."""
    model = random_model(dim, generic, rng, key_bias=True, bias=True)
    first, second, *rest = model.heads
    halves = [changed(one, v=part * one.v) for one in (first, second) for part in (0.3, 0.7)]
    silent = gh.Attention(rng.standard_normal((dim, dim)), np.zeros(dim))
    return model, gh.MultiHead([silent, *halves[::2], *rest, *halves[1::2]], bias=model.bias)
