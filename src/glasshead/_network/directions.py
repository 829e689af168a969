"""The rest of each neuron's weights: what lies outside V, from mixed second derivatives.

Along v in V and q outside it the second derivative is `sum_j C_j (u_j.v) (r_j.q)`, where `r_j` is the part of neuron j
outside V, in units of its part inside. Everything but `r_j` is known by then, so a few v for each point make a linear
system, with the same matrix for every q that is tangent at all base points. On a sphere a point has tangents of its own
among the few dimensions kept for points: there the unknowns of all points are solved for together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from .._errors import NotConverged
from .._types import Float
from .span import Curvature, from_matrices, identity_row, to_vectors

EQUATIONS_PER_UNKNOWN = 3.0  # for each unknown, at least
COMBINATIONS = 32  # of outputs that give the slopes of lengths: each has more numbers than there are slopes
CONDITION = 1e3  # of the linear system, beyond which more directions are asked about


@dataclass(frozen=True)
class Neurons:
    """Neurons as far as second derivatives know them: `act(s t + b)` with `t = g.x`, times `u.x` where gated.

    `g (m, d)` has a part of length 1 in V. `C (P, k, m)` are the coefficients of `g g^T` at each base point, and
    `cross` those of `g u^T + u g^T` for gated neurons.
    """

    points: Float[np.ndarray, "P d"]
    g: Float[np.ndarray, "m d"]
    C: Float[np.ndarray, "P k m"]
    u: Float[np.ndarray, "m d"] | None = None
    cross: Float[np.ndarray, "P k m"] | None = None

    @property
    def along(self) -> Float[np.ndarray, "m P"]:
        """`t` at each base point."""
        return self.g @ self.points.T


def coefficients(curvature: Curvature, g: np.ndarray, u: np.ndarray | None) -> list[Float[np.ndarray, "P k m"]]:
    """How much of each neuron is in the second derivatives at each point; and how much of each cross term."""
    members = [to_vectors(g)] + ([] if u is None else [to_vectors(g, u)])
    radial = [identity_row(curvature.D)] if curvature.domain.radial else []
    P, k = curvature.centre.shape
    whole = from_matrices(curvature.H.reshape(P * k, curvature.D, curvature.D))
    found = np.linalg.lstsq(np.concatenate([*members, *radial]).T, whole.T, rcond=None)[0]
    return [found[n * len(g) : (n + 1) * len(g)].T.reshape(P, k, len(g)) for n in range(len(members))]


def with_lengths(curvature: Curvature, g: Float[np.ndarray, "m D"]) -> tuple[Curvature, Float[np.ndarray, "P D"]]:
    """Second derivatives of `y` over its length, without their part along the answer, from those of `m = y / |y|`:
    what is no combination of neurons is the product of the slopes of both, which gives the slopes of the length."""
    D, (P, k), centre = curvature.D, curvature.centre.shape, curvature.centre
    H = curvature.H - np.einsum("pk,pij->pkij", centre, np.einsum("plij,pl->pij", curvature.H, centre))
    known = np.linalg.qr(np.concatenate([to_vectors(g), identity_row(D)]).T)[0]

    def off_neurons(S: np.ndarray) -> np.ndarray:
        return S - (S @ known) @ known.T

    turns, added = np.zeros((P, D)), np.zeros_like(H)
    some = np.linalg.qr(np.random.default_rng(0).standard_normal((k, min(k, COMBINATIONS))))[0].T  # of outputs
    for p in range(P):
        slopes = curvature.slopes[p] - np.outer(centre[p], centre[p] @ curvature.slopes[p])
        few = some @ slopes
        each = np.stack([off_neurons(to_vectors(np.broadcast_to(e, few.shape), few)) for e in np.eye(D)])
        bent = off_neurons(from_matrices(np.einsum("ck,kij->cij", some, H[p])))
        turns[p] = np.linalg.lstsq(each.reshape(D, -1).T, -bent.ravel(), rcond=None)[0]
        product = np.einsum("i,kj->kij", turns[p], slopes)
        added[p] = product + product.transpose(0, 2, 1)
    return replace(curvature, H=H + added), turns


def mixing(v: Float[np.ndarray, "P n D"], g: np.ndarray, u: np.ndarray | None, C: list) -> Float[np.ndarray, "P n k x"]:
    """The matrix from what is unknown of each neuron to mixed derivatives along v at each point."""
    along_g = v @ g.T
    plain = along_g[:, :, None] * C[0][:, None]
    if u is None:
        return plain
    crossed = C[1][:, None]
    return np.concatenate([plain + (v @ u.T)[:, :, None] * crossed, along_g[:, :, None] * crossed], axis=3)


def choose_directions(
    curvature: Curvature, g: np.ndarray, u: np.ndarray | None, C: list, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "P n D"], Float[np.ndarray, "P n k x"]]:
    """As few directions in V at each point as determine the rest of all neurons well."""
    P, k = curvature.centre.shape
    unknown = len(g) * len(C) * (1.5 if curvature.domain.radial else 1.0)
    n = min(curvature.D, max(1, int(np.ceil(EQUATIONS_PER_UNKNOWN * unknown / (P * k)))))
    while True:
        v = np.stack([np.linalg.qr(rng.standard_normal((curvature.D, n)))[0].T for _ in range(P)])
        K = mixing(v, g, u, C)
        flat = K.reshape(-1, K.shape[-1])
        s = np.linalg.svd(flat / np.linalg.norm(flat, axis=0), compute_uv=False)
        if s[0] <= CONDITION * s[-1] or n == curvature.D:
            return v, K
        n = min(curvature.D, int(np.ceil(1.5 * n)))


def read_neurons(curvature: Curvature, g: np.ndarray, u: np.ndarray | None, rng: np.random.Generator) -> Neurons:
    """All of each neuron's weights, up to scale and sign, from mixed second derivatives."""
    domain, m = curvature.domain, len(g)
    whole, turns = with_lengths(curvature, g) if domain.rays else (curvature, None)
    C = coefficients(whole, g, u)
    v, K = choose_directions(curvature, g, u, C, rng)
    rest = domain.tangents[curvature.D :]
    parts = [np.concatenate([g] if u is None else [g, u]) @ curvature.V]
    if len(rest):
        mixed, extra = read_mixed(curvature, v, np.broadcast_to(rest, (len(v), *rest.shape)), turns)
        system = np.concatenate([K.reshape(-1, K.shape[-1]), extra], axis=1)
        found = solved(system, mixed.transpose(0, 1, 3, 2).reshape(-1, len(rest)))
        parts.append(found[: K.shape[-1]] @ rest)
    if domain.radial:
        own = np.stack([domain.own_tangents(p) for p in curvature.points])
        mixed, extra = read_mixed(curvature, v, own, turns)
        mixed = mixed.transpose(0, 1, 3, 2)
        kept = domain.frame[: domain.kept]
        system = np.einsum("pnox,pqe->pnoqxe", K, own @ kept.T).reshape(mixed.size, -1)
        each = np.einsum("ax,qr->aqxr", extra, np.eye(own.shape[1])).reshape(mixed.size, -1)
        found = solved(np.concatenate([system, each], axis=1), mixed.reshape(-1))
        parts.append(found[: system.shape[1]].reshape(-1, domain.kept) @ kept)
    whole = np.sum(parts, axis=0)
    return Neurons(curvature.points, whole[:m], C[0], None if u is None else whole[m:], None if u is None else C[1])


def read_mixed(
    curvature: Curvature, v: Float[np.ndarray, "P n D"], q: Float[np.ndarray, "P r d"], turns: np.ndarray | None
) -> tuple[Float[np.ndarray, "P n r k"], Float[np.ndarray, "a x"]]:
    """Mixed second derivatives at each point along its v in V and its q: `8 P r (n + 1)` queries. Where answers are
    known up to their lengths, those of lengths along V, `turns`, are undone; those along q are further unknowns, with
    a column for each point."""
    domain, step, p = curvature.domain, curvature.steps.step, curvature.points
    (P, n, _), r, k = v.shape, q.shape[1], curvature.centre.shape[1]

    def read_both(directions: np.ndarray) -> list[np.ndarray]:
        many = directions.shape[1]
        repeated = (np.repeat(x, many, axis=0) for x in (p, curvature.centre))
        at, centre = repeated
        found = domain.read_derivatives(at, directions.reshape(P * many, -1), centre, step)
        return [x.reshape(P, many, k) for x in found]

    slopes, alone = read_both(q)
    inside = np.einsum("pni,pkij,pnj->pnk", v, curvature.H, v)
    both = ((v @ curvature.V)[:, :, None] + q[:, None]) / np.sqrt(2)
    together = read_both(both.reshape(P, n * r, -1))[1].reshape(P, n, r, k)
    mixed = together - (inside[:, :, None] + alone[:, None]) / 2
    if turns is None:
        return mixed, np.zeros((P * n * k, 0))
    mixed = mixed + np.einsum("pnd,pd,prk->pnrk", v, turns, slopes)
    along_centre = np.einsum("pnrk,pk->pnr", mixed, curvature.centre)
    mixed = mixed - along_centre[..., None] * curvature.centre[:, None, None]
    along = np.einsum("pnd,pkd->pnk", v, curvature.slopes)
    return mixed, -np.einsum("pnk,px->pnkx", along, np.eye(P)).reshape(P * n * k, P)


def solved(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Least squares with columns of length 1."""
    size = np.linalg.norm(A, axis=0)
    if not (size > 0).all():
        raise NotConverged("a neuron shows at no base point: its second derivatives vanish at all of them")
    found = scipy.linalg.lstsq(A / size, b, lapack_driver="gelsy")
    return (np.asarray(found[0]).T / size).T  # type: ignore[index]
