"""The rest of each neuron's weights: what lies outside V, from mixed second derivatives.

Along v in V and q outside it the second derivative is `sum_j C_j (u_j.v) (r_j.q)`, where `r_j` is the part of neuron j
outside V, in units of its part inside. Everything but `r_j` is known by then, so a few v for each point make a linear
system, with the same matrix for every q that is tangent at all base points. On a sphere a point has tangents of its own
among the few dimensions kept for points: there the unknowns of all points are solved for together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from .._errors import NotConverged
from .._types import Float
from .span import Curvature, identity_row, to_vectors

EQUATIONS = 3.0  # for each unknown, at least
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
    i, j = np.triu_indices(curvature.D, 1)
    H = curvature.H.reshape(P * k, curvature.D, curvature.D)
    whole = np.concatenate([np.diagonal(H, axis1=1, axis2=2), np.sqrt(2) * H[:, i, j]], axis=1)
    found = np.linalg.lstsq(np.concatenate([*members, *radial]).T, whole.T, rcond=None)[0]
    return [found[n * len(g) : (n + 1) * len(g)].T.reshape(P, k, len(g)) for n in range(len(members))]


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
    n = min(curvature.D, max(1, int(np.ceil(EQUATIONS * unknown / (P * k)))))
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
    C = coefficients(curvature, g, u)
    v, K = choose_directions(curvature, g, u, C, rng)
    rest = domain.tangents[curvature.D :]
    parts = [np.concatenate([g] if u is None else [g, u]) @ curvature.V]
    if len(rest):
        mixed = read_mixed(curvature, v, np.broadcast_to(rest, (len(v), *rest.shape)))
        parts.append(solved(K.reshape(-1, K.shape[-1]), mixed.transpose(0, 1, 3, 2).reshape(-1, len(rest))) @ rest)
    if domain.radial:
        own = np.stack([domain.own_tangents(p) for p in curvature.points])
        mixed = read_mixed(curvature, v, own).transpose(0, 1, 3, 2)
        kept = domain.frame[: domain.kept]
        system = np.einsum("pnox,pqe->pnoqxe", K, own @ kept.T).reshape(mixed.size, -1)
        parts.append(solved(system, mixed.reshape(-1)).reshape(-1, domain.kept) @ kept)
    whole = np.sum(parts, axis=0)
    return Neurons(curvature.points, whole[:m], C[0], None if u is None else whole[m:], None if u is None else C[1])


def read_mixed(
    curvature: Curvature, v: Float[np.ndarray, "P n D"], q: Float[np.ndarray, "P r d"]
) -> Float[np.ndarray, "P n r k"]:
    """Mixed second derivatives at each point along its v in V and its q: `8 P r (n + 1)` queries."""
    domain, step, p = curvature.domain, curvature.steps.step, curvature.points
    (P, n, _), r, k = v.shape, q.shape[1], curvature.centre.shape[1]

    def second(directions: np.ndarray) -> np.ndarray:
        many = directions.shape[1]
        repeated = (np.repeat(x, many, axis=0) for x in (p, curvature.centre))
        at, centre = repeated
        return domain.read_second(at, directions.reshape(P * many, -1), centre, step).reshape(P, many, k)

    alone = second(q)
    inside = np.einsum("pni,pkij,pnj->pnk", v, curvature.H, v)
    both = ((v @ curvature.V)[:, :, None] + q[:, None]) / np.sqrt(2)
    together = second(both.reshape(P, n * r, -1)).reshape(P, n, r, k)
    return together - (inside[:, :, None] + alone[:, None]) / 2


def solved(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Least squares with columns of length 1."""
    size = np.linalg.norm(A, axis=0)
    if not (size > 0).all():
        raise NotConverged("a neuron shows at no base point: its second derivatives vanish at all of them")
    found = scipy.linalg.lstsq(A / size, b, lapack_driver="gelsy")
    return (np.asarray(found[0]).T / size).T  # type: ignore[index]
