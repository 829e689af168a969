"""`gh.recover_relu`: a two-layer ReLU network from value queries, one random circle after another.

On a circle the network has finitely many kinks. `circle` finds them, `gradients` reads the slope on each arc between
two, their differences are the neurons, and `check` asks whether the result is the box. `attempt` is that, once; here it
is decided whether another circle is worth its queries, and what to say if none was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._errors import FEW_KINKS, BudgetExceeded, Evidence, GlassheadError, NotConverged, TargetMismatch
from .._oracles import Budgeted, InputOracle, Oracle
from .._types import no_type_check
from .._validate import whole
from .attempt import Attempt, Unresolved, learn_from_circle, learn_from_line
from .homogeneous import Homogeneous, Lifted, Plain
from .neurons import ReluNetwork
from .scale import MANY_STRETCHES, AnswerNoise, find_view, read_noise_level

MOST_EXACT_CIRCLES, MOST_NOISY_CIRCLES = 6, 16
PICKY = 3  # circles on which two kinks too close for the noise are reason enough to take another circle
NONSENSE_CIRCLES = 3  # circles that end in nonsense, where answers are exact
FAR_RADII = 1e3  # radii
OUTERMOST = 1e6  # radius to look from: single precision ends at 10^38, and inputs are that many radii long again
MOST_QUERIES, QUERIES_PER_PARAMETER = 20_000, 40  # queries: a network that takes more was not found on any circle


@no_type_check
def recover_relu(
    f: Callable[[np.ndarray], ArrayLike],
    dim: int | None = None,
    *,
    biases: bool | str = "auto",
    budget: int | None = None,
    max_norm: float | None = None,
    seed: int = 0,
) -> ReluNetwork:
    """Learn a two-layer ReLU network `f(x) = w^T ReLU(A^T x + b) + c` from values of f alone.

    >>> import glasshead as gh, numpy as np
    >>> A, w = np.array([[1.0, 2.0, -1.0], [0.5, -1.0, 3.0]]), np.array([1.0, -2.0, 0.5])
    >>> found = gh.recover_relu(lambda x: np.maximum(x @ A, 0) @ w, 2)
    >>> x = np.array([[3.0, -1.0], [0.2, 0.7]])
    >>> bool(np.allclose(found(x), np.maximum(x @ A, 0) @ w, rtol=1e-12)), found.width
    (True, 3)

    `f` maps inputs (B, d) to answers (B,); `dim` may be left out where f has a `.dim`. The width is found, may exceed
    the dimension, and the neurons may be dependent, parallel or dead: the result is the same function, not the same
    neurons, with at most two more of them than f has kinks. `reason` says whether fewer could do: m neurons suffice
    for m kinks exactly when twice the linear part is the sum of the jumps `± J_k` for some signs, which a linear system
    decides for independent jumps, a linear program for moderately dependent ones, and otherwise two extra neurons make
    unnecessary. `biases` are looked for unless given as True or False. Inputs longer than `max_norm` are never sent;
    a network with biases may have kinks anywhere, so there it must be left out.

    For networks without biases this is the learner that the paper conjectured could be had by modifying Daniely and
    Granot's algorithm, here without any assumption on the weights but what floating point can tell apart.

    Every result agreed with f on fresh inputs to `residual`: 1e-9 of the largest answer, or a hundred times the
    measured noise, at most 1e-3; and at inputs of every length from well below the nearest kink to well beyond the
    farthest, to 1e-9 of the largest answer at that length, or 1e-5 and what the noise there explains. What is not such
    a network raises `TargetMismatch` with the evidence; answers too noisy to learn from raise `NotConverged`, a spent
    `budget` raises `BudgetExceeded`, each with what is known so far. All queries count; the same seed asks the same
    ones.
    """
    if not (isinstance(biases, bool) or biases == "auto"):
        raise ValueError(f"expected biases to be 'auto', True or False, got {biases!r}")
    box: Oracle = InputOracle(f, dim, "recover_relu(f, dim)", max_norm=max_norm, scalar=True)
    box = box if budget is None else Budgeted(box, whole(budget, "budget", least=1))
    rng, known = np.random.default_rng(whole(seed, "seed", least=0)), dict[str, Any]()
    try:
        g, noise = find_view(box, biases, rng)
        g.known = known
        return learn_homogeneous(g, noise, rng)
    except BudgetExceeded as error:
        error.known = known | error.known  # that of an oracle that the box is may know something, too
        error.needed = max(error.needed, likely(known, box.dim) - box.queries)
        raise


def learn_homogeneous(g: Homogeneous, noise: AnswerNoise, rng: np.random.Generator) -> ReluNetwork:
    """One circle after another until a network passes its check; a bounded number of them, then say so."""
    failed: list[Attempt] = []
    hopeless: list[Unresolved] = []
    for circle in range(MOST_EXACT_CIRCLES if noise.exact else MOST_NOISY_CIRCLES):
        picky = noise.exact and circle < PICKY
        try:
            outcome = learn_from_circle(g, noise, rng, picky) if g.dim > 1 else learn_from_line(g, noise, rng)
            outcome = outcome.check_everywhere(noise, rng)
            if outcome.succeeded:
                return outcome.network()
            failed.append(outcome)
            moved = g if outcome.scales is None else move(g, outcome.network(), outcome.scales.worst_length)
            if moved is not g:
                g, noise = moved, read_noise_level(moved, rng)
        except Unresolved as error:
            if error.kinks.given_up:
                hopeless.append(error)
                noise = read_noise_level(g, rng, MANY_STRETCHES)
        if (noise.exact and len(failed) + len(hopeless) >= NONSENSE_CIRCLES) or too_many(g):
            break
    raise why_refused(g, noise, failed, hopeless)


def move(g: Homogeneous, network: ReluNetwork, length: float) -> Homogeneous:
    """Look from between the radius and where the network was wrong, if that is so far off that kinks are lost there."""
    if not isinstance(g, Lifted) or length == 0 or 1 / FAR_RADII < length / g.radius < FAR_RADII:
        return g
    if network.farthest_kink < g.radius / FAR_RADII:
        moved = Plain(g.box)  # it was noise that looked like biases
    else:
        moved = Lifted(g.box, float(np.clip(np.sqrt(g.radius * length), 1 / OUTERMOST, OUTERMOST)))
        moved.seen = g.seen
    moved.known = g.known
    return moved


def why_refused(
    g: Homogeneous, noise: AnswerNoise, failed: list[Attempt], hopeless: list[Unresolved]
) -> GlassheadError:
    """The error to raise: with the closest network, or with the bend that no network has."""
    best, evidence = None, None
    if failed:
        closest = min(failed, key=lambda outcome: outcome.residual)
        best, evidence = closest.network(), closest.evidence()
    elif hopeless:
        angle, expected, got = hopeless[-1].kinks.samples.sharpest_bend()
        X = hopeless[-1].circle.at(np.array([angle]))[0]
        evidence = Evidence(FEW_KINKS, g.input(X), f"expected {expected:.12g}", f"{got:.12g}")
    if noise.exact:
        return TargetMismatch("the box is not a two-layer ReLU network", evidence, best)
    relative = noise.level / noise.largest
    return NotConverged(
        f"the answers are too noisy to learn this network from: {relative:.1e} of the largest, as measured; "
        f"or the box is not a two-layer ReLU network ({evidence})",
        best,
    )


def too_many(g: Homogeneous) -> bool:
    parameters = (g.known.get("kinks", 0) + 1) * (g.box.dim + 1)
    return g.box.queries > MOST_QUERIES + QUERIES_PER_PARAMETER * parameters


def likely(known: dict[str, Any], dim: int) -> int:
    """About how many queries it takes in all, as far as that is known."""
    return round(1.3 * (known["kinks"] + 1) * (dim + 1)) + 60 if "kinks" in known else 0
