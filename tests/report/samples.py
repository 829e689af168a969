"""Folders to make pages of: recoveries that were just made, and an audit as `glasshead audit` writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import glasshead as gh
from glasshead._recovery import recovered

HOSTILE = "<script>document.title = 'owned'</script>\"'&amp;%%DATA%%</script><img src=x onerror=alert(1)>"


def setting(
    name: str, group: str, error: float | None, distortion: float, queries: int, **fields: Any
) -> dict[str, Any]:
    kept = error is None or error / 2 > 0.1
    outcome = "refused" if error is None else "recovered" if error < 0.01 else "partly"
    digits = "" if error is None else f"{max(0, int(-np.log10(error)))} digits"
    verdict = f"recovered to {digits} with {queries:,} queries" if error is not None else "not recovered by glasshead"
    return {
        "name": name,
        "group": group,
        "defence": name.replace(" ", "_"),
        "mitigation": "AML.M0002",
        "answers": "value",
        "outcome": outcome,
        "verdict": verdict,
        "queries": queries,
        "bits": float(queries),
        "plan": None,
        "error_W": error,
        "error_v": None if error is None else error / 3,
        "function_error": None if error is None else error / 2,
        "bound": None if error is None else 4.7 * error,
        "distortion": distortion,
        "cost": queries * 0.001,
        "seconds": 0.25 + queries / 1e4,
        "kept": kept,
        "reason": "the rank is 8; 16 fresh queries of 1 to 64 tokens agree",
        "more": "a field that no page knows",
    } | fields


def settings() -> list[dict[str, Any]]:
    """25 of them."""
    rows = [setting("as they are", "none", 3.4e-15, 0.0, 1064)]
    rows += [
        setting(
            f"rounded to {d} decimals", "rounding", 3.1 * 10.0 ** (0.6 - d), 0.29 * 10.0**-d / 0.6, 1064 + 31 * (8 - d)
        )
        for d in range(8, 0, -1)
    ]
    rows += [
        setting("float16 answers", "format", 6.3e-3, 2.1e-4, 1112),
        setting("bfloat16 answers", "format", 5.2e-2, 1.7e-3, 1130),
    ]
    rows += [
        setting(f"fixed noise of {level:g}", "fixed noise", None if level > 0.05 else 4.4 * level, level, 1800)
        for level in (1e-6, 1e-4, 1e-2, 1e-1)
    ]
    rows += [
        setting(f"fresh noise of {level:g}", "fresh noise", error, level, queries)
        for level, error, queries in (
            (1e-4, 2e-4, 9_400),
            (1e-3, 1.9e-3, 31_000),
            (1e-2, 1.6e-2, 88_000),
            (0.1, None, 100_000),
        )
    ]
    rows[-1] |= {
        "outcome": "budget",
        "plan": 2_100_000,
        "verdict": "not recovered with 100,000 queries; the plan is 2.1 million",
    }
    rows += [setting(f"norms up to {r}", "clipped", e, 0.02 / r, 1200) for r, e in ((16, 1e-13), (4, 7e-12), (1, 3e-9))]
    rows.append(setting("yes or no", "labels", 8.8e-7, 0.61, 39_360, answers="sign", outcome="direction", kept=False))
    rows += [
        setting(f"{n} queries", "budget", None, 0.0, n, outcome="budget", mitigation="AML.M0004", plan=1064)
        for n in (250, 1000)
    ]
    return rows


def audit(**fields: Any) -> dict[str, Any]:
    rows = settings()
    spectrum = [[float(f"{x:.6g}") for x in s] for s in spectra()]
    return {
        "format": "glasshead audit 1",
        "version": "0.1.0",
        "command": "glasshead audit target.safetensors --run runs/audit",
        "target": "target.safetensors",
        "family": "attention",
        "dim": 64,
        "parameters": 1024,
        "threshold": 0.1,
        "price_per_query": 0.001,
        "budget": 100_000,
        "threat": "vectors in; values, rounded values or labels out",
        "technique": "AML.T0024.002",
        "leak": {
            "outputs": 100,
            "queries": 80,
            "rows": [
                {
                    "answers": "as they are",
                    "width": 64,
                    "singular": spectrum[0],
                    "words": "the rank is 64: that is the width.",
                },
                {
                    "answers": "rounded to 2 decimals",
                    "width": None,
                    "singular": spectrum[1],
                    "words": "rounding hides the width.",
                },
            ],
        },
        "settings": rows,
        "ranking": ["250 queries", "1000 queries", "rounded to 1 decimals"],
        "recommendation": "Limit each user to 250 queries: that keeps the error of W above 0.1 and changes no answer.",
    } | fields


def spectra() -> list[np.ndarray]:
    """Of 80 answers of 100 numbers, of rank 64, as they are and rounded."""
    rng = np.random.default_rng(0)
    answers = rng.standard_normal((80, 64)) @ rng.standard_normal((64, 100)) / 30
    return [np.linalg.svd(a, compute_uv=False) for a in (answers, answers.round(1))]


def audit_folder(folder: Path, **fields: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "audit.json").write_text(json.dumps(audit(**fields)))
    return folder


def twelve_heads(folder: Path, dim: int = 384, heads: int = 12, rank: int = 32) -> Path:
    """A recovery of heads as large as those of MiniLM, off by as much as such are, with the truth beside it."""
    truth = gh.MultiHead.random(dim, heads=heads, rank=rank, seed=1)
    rng = np.random.default_rng(0)
    off = [gh.Attention.from_tensors(moved(head.tensors(), rng)) for head in truth.heads]
    found = recovered(
        gh.MultiHead(off), (rank,) * heads, queries=293_932, limit=287_617, residual=2e-13, reason="made for a test"
    )
    found.save(folder)
    gh.save(truth, folder / "truth.safetensors")
    return folder


def moved(tensors: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {name: x * (1 + 1e-13 * rng.standard_normal(x.shape)) for name, x in tensors.items()}


def run_fields(**fields: Any) -> dict[str, Any]:
    """What `run.json` holds."""
    return {
        "format": "glasshead run 1",
        "command": "glasshead recover box:head --dim 3",
        "target": "box:head",
        "answers": "value",
        "truth": None,
        "digest": None,
        "seconds": 0.5,
        "history": [[0.1, 3, "reading v"], [0.4, 60, "reading W"]],
    } | fields
