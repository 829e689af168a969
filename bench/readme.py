"""Put the measured numbers and the picture into README.md: `python -m bench.readme`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import glasshead as gh

from .fresh import ROOT
from .run import RESULTS

README, PICTURE = ROOT / "README.md", ROOT / "docs" / "W.svg"
BLOCK = re.compile(r"(<!-- numbers:(\w+) -->\n).*?(<!-- /numbers -->)", re.DOTALL)
KINDS = {
    "plain": "error of W, no biases",
    "biased": "error of W, with a key bias and a bias",
    "float32": "error of W, box in float32",
}

Row = tuple[str, float, float, float]


def results() -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}


def limits(found: dict[str, Any]) -> str:
    """What was promised, what was measured: one line per limit, the worst case of each."""
    rows = found["accuracy"]["rows"]
    lines = []
    for kind, what in KINDS.items():
        some = [row for row in rows if row["kind"] == kind]
        boxes, most = sum(row["boxes"] for row in some), some[-1]["d"]
        error, limit = max(row["error"] for row in some), found["accuracy"]["limits"][kind]
        lines.append((f"{what}, d = 1 to {most}, {boxes:,} boxes", short(error), short(limit), error <= limit))
    corner = found["accuracy"]["corner"]
    boxes, above = (sum(row[key] for row in corner) for key in ("boxes", "above_1e-10"))
    worst = max(row["error"] for row in corner)
    what = f"error of W, biases where it is hardest (W of 1000, both tenfold), {boxes} more boxes, {above} above"
    lines.append((what, short(worst), short(found["accuracy"]["limits"]["biased"]), above == 0))
    extra, allowed = max(row["extra"] for row in rows if row["kind"] != "biased"), found["accuracy"]["limits"]["extra"]
    biased = max(row["extra"] for row in rows + corner)
    what = f"queries beyond one per free parameter, no biases (with biases {biased})"
    lines.append((what, str(extra), str(allowed), extra <= allowed))
    for row in found["overhead"]["rows"]:
        ratio, limit = max(row["over_inside"], row["over_replay"]), found["overhead"]["limits"]["ratio"]
        threads = "one thread" if row["threads"] == 1 else f"{row['threads']} threads"
        what = f"time over the box's own time, d = {row['d']}, {threads}"
        lines.append((what, f"{ratio:.2f}", f"{limit:g}", ratio <= limit))
    used, limit = max(row["above_MB"] for row in found["memory"]["rows"]), found["memory"]["limits"]["MB"]
    what = f"memory beside the model, d = {found['memory']['rows'][0]['d']}"
    lines.append((what, f"{used:.0f} MB", f"{limit:.0f} MB", used <= limit))
    table = ["| worst case | measured | limit |", "|---|---|---|"]
    table += [f"| {what} | {got}{'' if met else ' (missed)'} | {limit} |" for what, got, limit, met in lines]
    return "\n".join(table) + "\n"


def paper(found: dict[str, Any]) -> str:
    """The paper's own probes on the same boxes, for the larger dimension."""
    d = max(row["d"] for row in found["accuracy"]["paper"])
    rows = [row for row in found["accuracy"]["paper"] if row["d"] == d]
    table = [
        f"| entries of W, d = {d} | Theorem 4.1, basis probes | Theorem 4.1, Gaussian probes | `gh.recover` |",
        "|---|---|---|---|",
    ]
    for row in rows:
        errors = " | ".join(short(row[name]["error"]) for name in ("basis", "gaussian", "glasshead"))
        size = f"{row['W_scale']:g}".replace("e-0", "e-")
        table.append(f"| {size} | {errors} |")
    return "\n".join(table) + "\n"


def families(found: dict[str, Any]) -> str:
    """One line for each kind of box: what it could not be done with fewer than, what it took, how right it is."""
    table = ["| told nothing but the box | information limit | queries | error of W |", "|---|---|---|---|"]
    for what, limit, queries, error in (*one_head(found), *several_heads(found)):
        table.append(f"| {what} | {limit:,.0f} | {queries:,.0f} | {short(error)} |")
    return "\n".join(table) + "\n"


def one_head(found: dict[str, Any]) -> Iterator[Row]:
    row = found["accuracy"]["low_rank"][-1]
    yield f"a head of rank {row['rank']}, d = {row['d']}", row["parameters"], row["queries"], row["error"]
    row = next(row for row in reversed(found["transformer"]["rows"]) if row["kind"] == "plain")
    network = (row["width"] + 1) * row["d"]
    what = f"a ReLU network of {row['width']} neurons behind one of rank {row['rank']}, d = {row['d']}"
    yield what, network + row["scores"], row["queries"], row["W"]
    rows = [row for row in found["any_network"]["rows"] if row["kind"] == "scalar" and row["residual"]]
    row = max((row for row in rows if row["rank"] == row["d"]), key=lambda row: row["d"])
    parameters = row["d"] * (row["d"] + 1)
    what = f"a residual block with LayerNorm and GELU, W and key bias, d = {row['d']}"
    yield what, parameters, row["queries_per_parameter"] * parameters, row["error"]


def several_heads(found: dict[str, Any]) -> Iterator[Row]:
    row = max(found["multi_head"]["minilm"], key=lambda row: row["W"])
    what = f"a layer of MiniLM, {row['heads']} heads, d = {row['d']}, one number per answer"
    yield what, (row["queries"] - 64) / row["ratio"], row["queries"], row["W"]
    rows = [row for row in found["vector"]["published"] if row["model"] == "minilm"]
    row = max(rows, key=lambda row: row["W"])
    yield f"the same, {row['d']} numbers per answer", row["limit"], row["queries"], row["W"]
    row = next(row for row in found["encoder"]["rows"] if row["box"].startswith("torch"))
    what = "`nn.TransformerEncoderLayer(64, 4, 256)`, its 4 heads, 64 numbers per answer"
    yield what, row["limit"], row["queries"], row["W"]
    row = next(row for row in found["decoder"]["rows"] if row["box"].startswith("LLaMA type (128"))
    what = "a LLaMA-type block, 8 heads with rotary positions, d = 128, 128 numbers per answer"
    yield what, row["limit"], row["queries"], row["W"]
    row = found["minilm_network"]
    what = f"all {row['weights']:,} weights of a layer of MiniLM: heads, norms, network, 384 numbers per answer"
    yield what, row["limit"], row["queries"], max(row[name] for name in ("heads", "W1", "W2"))


def machine(found: dict[str, Any]) -> str:
    about = found["accuracy"]["machine"]
    python, numpy = (".".join(about[name].split(".")[:2]) for name in ("python", "numpy"))
    rows = found["accuracy"]["rows"] + found["accuracy"]["corner"]
    boxes, broken = sum(row["boxes"] for row in rows), sum(len(row["bound_broken_at"]) for row in rows)
    return (
        f"Python {python}, numpy {numpy}, {about['system']}, {about['cpus']} CPUs. "
        f"The error bound that comes with a plain head held for {boxes - broken:,} of {boxes:,} boxes.\n"
    )


BLOCKS: dict[str, Callable[[dict[str, Any]], str]] = {
    "limits": limits,
    "paper": paper,
    "families": families,
    "machine": machine,
}


def short(x: float) -> str:
    """1.2e-15 as it is, 7.3 as 7.3."""
    return f"{x:.1f}" if 0.1 <= x < 1000 else re.sub(r"\.0(?=e)|(?<=e-)0", "", f"{x:.1e}")


def filled(text: str, found: dict[str, Any]) -> str:
    """`text` with every `<!-- numbers:NAME -->` block made anew."""
    return BLOCK.sub(lambda match: match[1] + BLOCKS[match[2]](found) + match[3], text)


def draw_picture(path: Path = PICTURE) -> None:
    """A head whose W can be recognised: ripples, asked for and drawn beside the truth."""
    from glasshead._report import Panel, draw

    d, rng = 48, np.random.default_rng(0)
    row, column = np.mgrid[:d, :d] / d
    rings = np.cos(30 * np.hypot(row - 0.42, column - 0.55))
    target = gh.Attention(rings + 0.3 * rng.standard_normal((d, d)), rng.standard_normal(d))
    found = gh.recover(target)
    difference, largest = found.model.W - target.W, float(np.abs(target.W).max())
    panels = [
        Panel("W inside the box", target.W, largest),
        Panel("W from its answers", found.model.W, largest),
        Panel("the second minus the first", difference),
    ]
    caption = (
        f"{found.queries:,} queries for {found.limit:,} free parameters; "
        f"the largest error of an entry is {np.abs(difference).max():.0e}, proven: at most {found.bound:.0e}"
    )
    path.parent.mkdir(exist_ok=True)
    draw(path, panels, title="An attention head, read through its answers", caption=caption)


def main() -> None:
    README.write_text(filled(README.read_text(), results()))
    draw_picture()


if __name__ == "__main__":
    main()
