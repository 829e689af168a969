"""`gh.recover_network`: a two-layer network, weight by weight, from its values.

A first look finds the length of inputs at which it bends, its noise, and a step for differences (`step`). Second
derivatives along a space V span as many dimensions as there are neurons (`span`); the members of rank one, or pairs of
them for gated neurons, are the neurons' directions in V (`rank_one`, `rank_two`); mixed derivatives give the rest of
them (`directions`), a fit of the activation their scales and biases (`ridge`), the linear part their signs (`signs`).
All weights together are refined on answers (`refine`), and fresh inputs decide (`check`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._errors import BudgetExceeded, NotConverged, TargetMismatch
from .._linalg import LEAST_DIVISOR, random_rotation, rms
from .._models import ACTIVATIONS
from .._oracles import InputOracle, Oracle, Report, bar, guarded
from .._types import ArrayLike, no_type_check
from .._validate import positive, whole
from .check import AGAIN, NOISES, NOISIEST, check_asked_again, check_network
from .creases import learn_creased
from .directions import Neurons, read_neurons
from .domain import Domain, SphereDomain, as_single_tokens, find_domain
from .piecewise import learn_piecewise
from .rank_one import isolated, rank_ones
from .rank_two import rank_twos
from .refine import inputs_for, refined
from .result import RecoveredNetwork
from .ridge import GATED, PLAIN, gated_network, plain_network, require_network_arguments
from .signs import Sided, inputs_needed, with_linear_neurons, with_signs
from .span import Span, find_span
from .step import Steps, find_radius, find_steps

SPAN_ATTEMPTS = 2
SLACK = 100.0  # times the misfit of a fit: the error of a weight before it is refined
WORST_FIT = 0.2  # of all coefficients: an activation that misfits by more is not even tried


class Explained(NamedTuple):
    """A network that explains the answers, and how it was come by."""

    model: Any
    words: str


@no_type_check
def recover_network(
    f: Callable[[np.ndarray], ArrayLike] | Oracle,
    dim: int | None = None,
    *,
    activation: str = "auto",
    sphere: bool = False,
    radius: float | None = None,
    widest: int | None = None,
    rtol: float = 1e-9,
    budget: int | None = None,
    seed: int = 0,
    progress: Report | bool | None = None,
) -> RecoveredNetwork:
    """Learn a two-layer network `f(x) = W2 act(W1 x + b1) + b2` from values of f alone, weight by weight.

    >>> import glasshead as gh, numpy as np
    >>> target = gh.TwoLayer.random(8, 12, activation="silu", seed=1)
    >>> found = gh.recover_network(target, 8)
    >>> found.activation, found.width, bool(np.allclose(np.sort(found.b1), np.sort(target.b1), rtol=1e-10))
    ('silu', 12, True)

    `f` maps inputs (B, d) to answers (B, k) or (B,); `dim` may be left out where f has a `.dim`; a `gh.Oracle` is asked
    single tokens. `activation` is "gelu", "gelu-tanh", "silu", "relu", or, for networks with a gate, `W2 (act(W1 x +
    b1) * (gate x + gate_bias)) + b2`, "swiglu" or "geglu"; "auto" finds out which. With `sphere=True` only inputs of
    length `radius` are sent, sqrt(dim) unless given; otherwise `radius` is where the search for the size of inputs
    begins. The width is found: at most `widest` neurons, 8 for each dimension unless given, and at most about
    `d^2 / 2.5`, half of that for gated ones, since the second derivatives of more fill all there is.

    Weights come out up to the order of neurons and, for a gate, up to a factor that its row and the column of W2 share.
    Every result agreed with f on fresh inputs to `rtol` of the largest answer, or thirty times the measured noise. What
    is no such network raises `TargetMismatch` or `NotConverged` with what was seen; a spent `budget` raises
    `BudgetExceeded`. `progress` is True for a bar or a callable `(done, planned, what)`. All queries count; the same
    seed asks the same ones.
    """
    oracle = as_single_tokens(f, dim)
    require_network_arguments(activation, sphere, widest, budget, progress)
    rng = np.random.default_rng(whole(seed, "seed", least=0))
    start = float(np.sqrt(oracle.dim)) if radius is None else positive(radius, "radius")
    with bar() if progress is True else nullcontext(progress or None) as report, guarded(oracle, budget, report) as box:
        domain = find_domain(box, sphere, start, positive(rtol, "rtol"), rng)
        try:
            found = learn_any(domain, activation, widest, rng)
        except (TargetMismatch, NotConverged) as error:
            best = error.best  # what a part of the way came to is no network of all outputs
            whole_box = {"queries": box.sent, "single": isinstance(oracle, InputOracle) and oracle.single}
            error.best = replace(best, **whole_box) if isinstance(best, RecoveredNetwork) else None
            raise
    single = isinstance(oracle, InputOracle) and oracle.single
    return RecoveredNetwork(**found, queries=box.sent, single=single)


def learn_any(domain: Domain, activation: str, widest: int | None, rng: np.random.Generator) -> dict[str, Any]:
    """The fields of the result; which way to go is read off a first look."""
    if activation == "relu":
        return learn_kinks(domain, rng)
    domain.oracle.stage = "looking"
    first = domain.inputs(AGAIN, rng)
    answered = domain.ask(first)
    domain = find_radius(domain, rng)
    steps = find_steps(domain, rng)
    if steps.smooth:
        found = learn_smooth(domain, steps, activation, widest, rng)
        check_asked_again(domain, first, answered, steps.noise)
        return found
    unclear = NotConverged(
        f"second derivatives are known to {steps.error / max(steps.typical, LEAST_DIVISOR):.1e} of their size only, at "
        f"any step: the box has kinks, or its answers are noisy ({steps.noise:.1e})",
        known={"noise": steps.noise},
    )
    if activation != "auto":
        raise unclear
    try:
        return learn_kinks(domain, rng)
    except (TargetMismatch, NotConverged) as error:
        raise NotConverged(f"{unclear}; nor is it a ReLU network: {error}", error.best, unclear.known) from error


def learn_kinks(domain: Domain, rng: np.random.Generator) -> dict[str, Any]:
    """A ReLU network, by its kinks."""
    domain.oracle.stage = "following kinks"
    if isinstance(domain, SphereDomain):
        model, noise, words = learn_creased(domain, rng)
    else:
        domain, sided, scalar = learn_piecewise(domain, rng)
        model, words = sided.model, f"{scalar.reason.split(';')[0]}; {sided.words}"
        noise = float(scalar.residual or 0.0)  # of a typical answer
    typical = rms(domain.ask(domain.inputs(16, rng))) or 1.0
    noise = noise if isinstance(domain, SphereDomain) else noise * typical
    agreed = check_network(domain, model, noise, typical, rng)
    return {
        "model": model,
        "residual": agreed.residual,
        "noise": noise,
        "checked": agreed.checked,
        "reason": f"{words}; {agreed.words}",
    }


def learn_smooth(
    domain: Domain, steps: Steps, activation: str, widest: int | None, rng: np.random.Generator
) -> dict[str, Any]:
    """A network of a smooth activation, by its second derivatives."""
    known: dict[str, Any] = {}
    try:
        domain.oracle.stage = "second derivatives"
        span, explained, Y = find_explained(domain, steps, activation, widest, rng, known)
        domain.oracle.stage = "checking"
        typical = rms(Y)
        agreed = check_network(domain, explained.model, steps.noise, typical, rng)
    except BudgetExceeded as error:
        error.known = known | error.known
        raise
    words = (
        f"second derivatives at {len(span.curvature.points)} points along {span.curvature.D} directions span "
        f"{span.size} dimensions, {span.gap:.1e} above errors, {span.filling:.0%} of the room; {explained.words}; "
        f"{agreed.words}"
    )
    return {
        "model": explained.model,
        "residual": agreed.residual,
        "noise": steps.noise,
        "checked": agreed.checked,
        "reason": words,
    }


def find_explained(
    domain: Domain, steps: Steps, activation: str, widest: int | None, rng: np.random.Generator, known: dict[str, Any]
) -> tuple[Span, Explained, np.ndarray]:
    """A network that explains answers, and these. Once more with other points and directions where nothing does: a
    neuron may be flat at all of a few points."""
    for attempt in range(SPAN_ATTEMPTS):
        span = find_span(domain, steps, widest, rng)
        known["dimensions"] = span.size
        try:
            neurons = find_neurons(span, activation, rng)
            return span, *find_activation(span, neurons, activation, rng)
        except TargetMismatch:
            if attempt == SPAN_ATTEMPTS - 1:
                raise
            domain = replace(domain, frame=random_rotation(domain.dim, rng))
    raise AssertionError("unreachable")


def find_neurons(span: Span, activation: str, rng: np.random.Generator) -> Neurons:
    """The directions of all neurons: as many as the span has dimensions, or half as many gated ones, or a refusal."""
    kinds = [kind for kind, names in (("plain", PLAIN), ("gated", GATED)) if activation in names]
    if len(kinds) == 2 and not isolated(span, rng):
        kinds.reverse()
    seen: list[str] = []
    for kind in kinds:
        if kind == "plain":
            g, u = rank_ones(span, rng), None
            seen.append(f"{len(g)} members of rank one")
        else:
            g, u = rank_twos(span, rng)
            seen.append(f"{len(g)} pairs of gated neurons")
        if len(g) * (1 if u is None else 2) == span.size:
            return read_neurons(span.curvature, g, u, rng)
    raise TargetMismatch(
        f"second derivatives span {span.size} dimensions, but of what they span only {' and '.join(seen)} were found: "
        f"the box is not a two-layer network{'' if activation == 'auto' else f' of activation {activation!r}'}"
    )


def find_activation(
    span: Span, neurons: Neurons, activation: str, rng: np.random.Generator
) -> tuple[Explained, np.ndarray]:
    """The activation that fits, the network refined on answers, and these."""
    domain, noise = span.curvature.domain, span.curvature.steps.noise
    accepted = domain.accepted
    names, fit = (PLAIN[activation], plain_network) if neurons.u is None else (GATED[activation], gated_network)
    fits = sorted(((*fit(neurons, ACTIVATIONS[name]), name) for name in names), key=lambda each: each[1])
    said = ", ".join(f"{name} {misfit:.1e}" for _, misfit, name in fits)
    domain.oracle.stage = "refining"
    X = domain.inputs(max(inputs_for(fits[0][0]), inputs_needed(domain.dim)), rng)
    Y = domain.ask(X)
    typical = rms(Y)
    if noise > NOISIEST * typical:
        raise NotConverged(f"the answers are too noisy: {noise / typical:.1e} of a typical one, as measured")
    closest = ""
    for model, misfit, _ in fits:
        if misfit > WORST_FIT:
            continue
        sided = with_signs(model, X, Y, max(accepted, SLACK * misfit)) if neurons.u is None else Sided(model, None, "")
        sided, left = refined(sided, X, Y, noise)
        if sided.linear is not None and left <= accepted * typical + NOISES * noise:
            again = with_signs(sided.model, X, Y, accepted)  # weights are known better now
            sided, left = refined(again, X, Y, noise) if again.linear is None else (sided, left)
        closest = closest or f"; the best of them is off by {left / typical:.1e} of a typical answer"
        if left <= accepted * typical + NOISES * noise:
            signs = f"; {sided.words}" if sided.words else ""
            words = f"misfits of activations: {said}; refined to {left / typical:.1e} of the answers{signs}"
            return Explained(with_linear_neurons(sided, domain.radius), words), Y
    raise TargetMismatch(
        f"{len(neurons.g)} neurons were found, but no activation explains the answers: misfits {said}{closest}"
    )
