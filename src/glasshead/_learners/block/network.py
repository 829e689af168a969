"""The network inside a block with norms in front of its heads and of its network, once its heads are known.

One token x alone has `a = x + n(x) total + offset` behind the heads, so a token can be made for every a, and the answer
less a is the network's, read behind its norm: a function on a sphere, which `gh.recover_network` learns. Tokens are
long, so that the eps of that norm does not matter. The `offset`, what heads add whatever they attend to, shows in one
way only: along a ray of a, which the norm forgets, answers less a must not change. Where they do, the offset is wrong
by as much, and the network's slopes, by differences, say in which direction. At last offset, constant and eps are
fitted together, on tokens of ordinary size and shorter ones.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np

from ..._errors import WHOLE_BLOCK, AccuracyUnreachable, Evidence, NotConverged, TargetMismatch
from ..._models import Block, Inside, Norm, TwoLayer, Unembedding
from ..._network import RecoveredNetwork, inputs_for, recover_network
from ..._oracles import DOUBLE, Oracle, read_single
from ..._types import Float
from .logits import Logits, find_logits
from .post_norm import read_post_norm, reads_behind
from .stream import Stream
from .tangents import changed_eps, changed_network
from .whole_fit import FIRST_EPS, FITTED_SIZES, few_fit, whole_fit

SHORT_RAY, LONG_RAY = 2.0**8, 2.0**10  # times a normalised token: eps is nothing there, and digits are left
SLOPE_STEP = 1e-5  # radians: few kinks of a ReLU network are as near
ROUGHLY, EXACTLY = 1e-6, 1e-9  # of the largest answer: how well the network must fit, and from where on all is polished
RAYS = 3  # two would do
OFFSET_ROUNDS, SETTLED = 8, 1e-10  # or until it moves by less, of a normalised token
SEEN_OFFSET = 1e-9  # of the largest singular value: what changes answers by less is left as it is
RANK = 1e-5  # of the largest singular value of a value map: what is less is none
CHECKED, LONGEST = 24, 16  # fresh sequences, and tokens in the longest
ACCEPTED_ERROR = 1e-6  # of the largest answer
POST_NORM_SEES = (
    "the first norm's gains are seen up to one factor for all behind it, which is set so that their mean is 1; its "
    "shifts are part of the network's biases, and rows of W1 and columns of W2 have no mean"
)


def read_network(oracle: Oracle, block: Block, rng: np.random.Generator) -> tuple[Inside, RecoveredNetwork]:
    """The network behind the heads of this block, with its norm and the constant that heads add."""
    stream = find_stream(oracle, block, rng)
    oracle.stage = "reading the network"
    last, basis, offset = stream.last if isinstance(stream, Logits) else None, stream.basis, np.zeros(oracle.dim)
    if isinstance(stream, Logits) and stream.last.norm is not None:
        offset = stream.read_offset(rng)
    elif not block.parallel:
        offset = read_offset(stream, rng)
    found = recover_network(
        lambda z: stream.read(LONG_RAY * z @ basis, offset),
        len(basis),
        sphere=True,
        radius=float(np.sqrt(oracle.dim)),
        rtol=ROUGHLY,
        seed=int(rng.integers(2**31)),
    )
    inside = Inside(
        in_tokens(found.model, basis),
        Norm(stream.front.kind, (None if last is None else stream.front.eps) or FIRST_EPS),
        stream.front,
        stream.total,
        offset,
        block.parallel,
        last,
    )
    inside = read_inside_fit(stream, inside, rng) if last is None else inside
    exact = last is None and (found.residual or 0.0) <= EXACTLY
    return inside if exact else read_polished(stream, inside, rng), found


def find_stream(oracle: Oracle, block: Block, rng: np.random.Generator) -> Stream:
    """The box behind its heads; blocks whose network is not seen in this way are refused."""
    behind = any(norm.place == "behind" for norm in block.norms) and block.unembedding is None
    if block.front is None or behind or block.residual_map != "assumed identity":
        raise NotConverged(
            "the network of a block is read where a norm stands in front of the heads and of the network, nothing "
            "but an unembedding stands behind the last residual connection, and that is the identity: this is "
            f"{block!r}; its heads are recovered without network=True"
        )
    return Stream(oracle, block, block.front) if block.unembedding is None else find_logits(oracle, block, rng)


def read_polished(stream: Stream, inside: Inside, rng: np.random.Generator) -> Inside:
    """All of it, fitted to answers to tokens of ordinary size, and to a few shorter ones, where an eps shows."""
    n = inputs_for(inside.network)
    a = np.concatenate([size * stream.sphere(n // 8, rng) for size in FITTED_SIZES])
    x = np.concatenate([stream.tokens(a, inside.offset), rng.standard_normal((n, stream.oracle.dim))])
    return whole_fit(inside, x, np.asarray(read_single(stream.oracle, x)), rng)[0]


def in_tokens(model: TwoLayer, basis: np.ndarray) -> TwoLayer:
    """The network for normalised tokens, of one for their coordinates."""
    gate = {} if model.gate is None else {"gate": model.gate @ basis, "gate_bias": model.gate_bias}
    return TwoLayer(model.W1 @ basis, model.b1, model.W2, model.b2, activation=model.activation, **gate)


def read_offset(stream: Stream, rng: np.random.Generator) -> Float[np.ndarray, " d"]:
    """The constant that heads add, as far as a norm sees it, from answers along rays."""
    offset, basis, d = np.zeros(stream.oracle.dim), stream.basis, stream.oracle.dim
    for _ in range(OFFSET_ROUNDS):
        rows, changes = [], []
        for n in stream.sphere(RAYS, rng):
            tangents = np.linalg.svd((basis @ n)[None])[2][1:] @ basis
            turned = [np.cos(SLOPE_STEP) * n + s * np.sqrt(d) * np.sin(SLOPE_STEP) * tangents for s in (1, -1)]
            there, back = (stream.read(LONG_RAY * points, offset) for points in turned)
            slopes = (there - back) / (2 * SLOPE_STEP * np.sqrt(d))
            near, far = stream.read(np.outer([SHORT_RAY, LONG_RAY], n), offset)
            rows.append(slopes.T @ tangents * (1 / SHORT_RAY - 1 / LONG_RAY))
            changes.append(near - far)
        change = np.linalg.lstsq(np.concatenate(rows), np.concatenate(changes), rcond=SEEN_OFFSET)[0]
        offset = offset + change
        if np.linalg.norm(change) <= SETTLED * np.sqrt(d):
            break
    return offset


def read_inside_fit(stream: Stream, inside: Inside, rng: np.random.Generator) -> Inside:
    """What stands inside, offset, constant and eps fitted to answers to tokens of ordinary size and shorter ones."""
    d, n = stream.oracle.dim, 2 + stream.oracle.dim // 8
    a = np.concatenate([size * stream.sphere(n, rng) for size in FITTED_SIZES])
    ordinary = rng.standard_normal((2 * n, d))
    x = np.concatenate([stream.tokens(a, inside.offset), ordinary])

    def changed(inside: Inside, by: np.ndarray) -> Inside:
        of_offset = 0.0 if inside.parallel else by[:d]
        zero = dict.fromkeys(("W1", "b1", "W2", "gate", "gate_bias"), 0.0)
        network = changed_network(inside.network, zero | {"b2": by[d : 2 * d] - of_offset})
        norm = changed_eps(inside.norm, float(by[-1]))
        return replace(inside, network=network, offset=inside.offset + of_offset, norm=norm)

    return few_fit(inside, 2 * d + 1, changed, x, np.asarray(read_single(stream.oracle, x)))


def with_total(block: Block, inside: Inside) -> tuple[Block, Inside]:
    """Both with value maps that add up to the sum behind which the network was fitted, as far as their ranks allow."""
    maps = [np.asarray(head.v) for head in block.heads]
    spaces = []
    for P in maps:
        left, s, _ = np.linalg.svd(P)
        spaces.append(left[:, : int(np.sum(s > RANK * s[0]))])
    change = np.linalg.pinv(np.concatenate(spaces, axis=1)) @ (inside.total - np.sum(maps, axis=0))
    parts = np.split(change, np.cumsum([V.shape[1] for V in spaces])[:-1])
    moved = [P + V @ C for P, V, C in zip(maps, spaces, parts, strict=True)]
    other = {f"heads.{h}.v": v for h, v in enumerate(moved)}
    return Block.from_tensors(block.tensors() | other), replace(inside, total=np.sum(moved, axis=0))


def check_inside(oracle: Oracle, block: Block, rng: np.random.Generator) -> float:
    """The largest error of a block that answers by itself on fresh sequences, over the largest answer; too large a one
    is refused."""
    worst = 0.0
    for length in rng.integers(1, LONGEST + 1, CHECKED).tolist():
        X = rng.standard_normal((1, length, oracle.dim))
        got, want = np.asarray(oracle(X)), block(X)
        off = float(np.abs(got - want).max() / np.abs(got).max())
        worst = max(worst, off)
        if not off <= ACCEPTED_ERROR:
            seen = Evidence(WHOLE_BLOCK, X[0], f"expected {want[0, 0]:.12g}", f"{got[0, 0]:.12g}")
            raise TargetMismatch("the network that was found does not answer like the box", seen)
    return worst


def read_whole_block(oracle: Oracle, block: Block, rng: np.random.Generator) -> tuple[Block, str, float]:
    """The block with its network, which needs no box any more; a sentence about it, and its largest error on fresh
    sequences."""
    whole = copy(block)
    if oracle.roundoff > DOUBLE or not oracle.exact:
        digits = f"those of this box have {-np.log10(oracle.roundoff):.0f} digits"
        raise AccuracyUnreachable(
            "the network of a block is read from small differences of answers, and "
            f"{digits if oracle.exact else 'this box promises less than all their digits'}: ask it in float64, where "
            "it can be (`module.double()`); without network=True its heads are recovered"
        )
    if reads_behind(block):
        whole.behind, words = read_post_norm(oracle, block, rng)
        residual = check_inside(oracle, whole, rng)
        said = f"behind the heads a {whole.network!r} between two LayerNorms: {words}; {POST_NORM_SEES}"
        return whole, f"{said}; the whole block answers within {residual:.1e}", residual
    inside, found = read_network(oracle, block, rng)
    whole, inside = with_total(block, inside)
    whole.behind = inside
    last = "" if inside.last is None else f", {last_words(inside.last)}"
    if inside.last is not None and inside.last.norm is not None:
        whole.norms = tuple(inside.last.norm if norm.place == "behind" else norm for norm in block.norms)
    residual = check_inside(oracle, whole, rng)
    words = (
        f"behind the heads a {inside.network!r}{last}: {found.reason}; the whole block answers within {residual:.1e}"
    )
    return whole, words, residual


def last_words(last: Unembedding) -> str:
    """What is known of an unembedding."""
    answers = "log-probabilities" if last.probabilities else "logits"
    if last.norm is None:
        return f"then an unembedding to {last.E.shape[1]} {answers}"
    kind, hidden = {"layer": ("LayerNorm", "length and mean"), "rms": ("RMSNorm", "length")}[last.norm.kind]
    return (
        f"then a {kind}, whose gains and shift are part of the unembedding to {last.E.shape[1]} {answers} and its "
        f"bias; it hides the {hidden} of what is in front of it"
    )
