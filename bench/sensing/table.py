"""The measured numbers as Markdown tables, from whatever lies in results/.

python -m bench.sensing.table
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from typing import Any

from .instances import load


def markdown(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cvxpy() -> str:
    content = load("against_cvxpy")
    head = (
        "d, r, m",
        "ours",
        "cvxpy + SCS",
        "faster",
        "than SCS alone",
        "memory, ours",
        "theirs",
        "less",
        "error",
        "theirs",
    )
    return markdown(head, (_cvxpy_row(row) for row in content["rows"])) + "\n\n" + _alone(content["alone"])


def _cvxpy_row(row: dict[str, Any]) -> Iterator[str]:
    us, them = row["ours"], row["theirs"]
    yield f"{row['dim']}, {row['rank']}, {row['m']}"
    yield f"{us['seconds']:.3f} s"
    yield f"{them['seconds']:.2f} s"
    yield f"{row['times_faster']:.0f}x"
    yield f"{row['times_faster_than_solver_alone']:.0f}x"
    yield f"{us['MB']:.1f} MB"
    yield f"{them['MB']:.0f} MB"
    yield f"{row['times_less_memory']:.0f}x"
    yield f"{us['error']:.0e}"
    yield f"{them['error']:.0e}"


def _alone(row: dict[str, Any]) -> str:
    run = row["runs"][0]
    return (
        f"Ours alone, d = {row['dim']}, r = {row['rank']}, m = {row['m']}: {row['seconds']:.1f} s, {row['MB']:.0f} MB, "
        f"{run['iterations']} iterations, residual {run['residual']:.0e}, duality gap {run['gap']:.0e}, "
        f"error {row['error']:.0e}."
    )


def pymanopt() -> str:
    rows = load("against_pymanopt")["rows"]
    head = ("d, r, m", "ours to 1e-10", "pymanopt CG", "faster", "error", "theirs")
    return markdown(
        head,
        (
            (
                f"{row['dim']}, {row['rank']}, {row['m']}",
                f"{row['seconds']:.3f} s",
                f"{row['their_seconds']:.2f} s",
                f"{row['times_faster']:.1f}x",
                f"{row['error']:.0e}",
                f"{row['their_error']:.0e}",
            )
            for row in rows
        ),
    )


def thresholds() -> dict[tuple[int, int], list[float]]:
    """m / dof from which the nuclear norm recovers W, one number per seed."""
    found: dict[tuple[int, int], list[float]] = {}
    for name, value in load("phase")["cells"].items():
        method, dim, rank, _ = name.split()
        if method == "nuclear":
            found.setdefault((int(dim), int(rank)), []).append(value)
    return dict(sorted(found.items()))


def nuclear_phase() -> str:
    from glasshead.sensing._measurements import measurements_needed

    def row(dim: int, rank: int, values: list[float]) -> tuple[str, ...]:
        asked = measurements_needed(dim, rank) / (rank * (2 * dim - rank))
        middle = statistics.median(values)
        return f"{dim}", f"{rank}", f"{len(values)}", f"{middle:.2f}", f"{max(values):.2f}", f"{asked:.2f}"

    head = ("d", "r", "seeds", "m / dof, median", "largest", "asked for by default")
    return markdown(head, (row(*size, values) for size, values in thresholds().items()))


def fixed_phase() -> str:
    content = load("phase")
    cells = {tuple(name.split()[1:]): hits for name, hits in content["cells"].items() if name.startswith("fixed")}
    ratios = sorted({ratio for _, _, ratio in cells}, key=float)
    sizes = sorted({(int(dim), int(rank)) for dim, rank, _ in cells})
    rows = ([d, r, *(_percent(cells.get((str(d), str(r), x)), content["trials"]) for x in ratios)] for d, r in sizes)
    return markdown(("d", "r", *(f"m = {x} dof" for x in ratios)), rows)


def _percent(hits: int | None, trials: int) -> str:
    return "" if hits is None else f"{100 * hits / trials:.0f}%"


def distill() -> str:
    content = load("distill")
    head = ("d, r", "tokens", "queries", "of the limit", "time", "error of W", "of the function", "rate")
    rows = markdown(head, (_distill_row(row) for row in content["rows"]))
    return "\n\n".join([rows, "\n".join(_needed(each) for each in content["needed"]), ours(content["rows"])])


def ours(adam: list[dict[str, Any]]) -> str:
    """Our recovery of the same heads, against the cheapest and fastest Adam that reached an error of 1e-3."""

    def row(each: dict[str, Any]) -> Iterator[str]:
        got_there = [a for a in adam if (a["dim"], a["rank"]) == (each["dim"], each["rank"]) and a["W_error"] <= 1e-3]
        yield f"{each['dim']}, {each['rank']}"
        yield f"{each['queries']}"
        yield f"{each['queries'] / each['limit']:.2f}x"
        yield f"{1e3 * each['seconds']:.0f} ms"
        yield f"{each['W_error']:.0e}"
        for tokens in ("sized", "unit"):
            best = min((a["queries"] for a in got_there if a["tokens"] == tokens), default=None)
            yield f"{best / each['queries']:.1f}x" if best else "Adam never got there"
        yield f"{min(a['seconds'] for a in got_there) / each['seconds']:.0f}x"

    head = ("d, r", "our queries", "of the limit", "time", "error of W", "fewer than Adam, sized", "unit", "faster")
    return markdown(head, (row(each) for each in load("recovery")["rows"]))


def _distill_row(row: dict[str, Any]) -> Iterator[str]:
    yield f"{row['dim']}, {row['rank']}"
    yield row["tokens"]
    yield f"{row['queries']}"
    yield f"{row['queries'] / row['limit']:.0f}x"
    yield f"{row['seconds']:.1f} s"
    yield f"{row['W_error']:.0e}"
    yield f"{row['function_error']:.0e}"
    yield f"{row['rate']:g}"


def _needed(each: dict[str, Any]) -> str:
    reached = (f"{each[key] or 'more than asked'} for {key}" for key in each if key.startswith("1e-"))
    return f"- ({each['dim']}, {each['rank']}), {each['tokens']} tokens: Adam needs {', '.join(reached)}."


HEAD = """# Low rank, measured

Generated by `make tables` from the JSON files in `bench/sensing/results/`. The ratios to cvxpy and pymanopt come from
one run each; Adam and our recovery were timed one after the other on the same machine.
"""
PARTS = {
    "Nuclear norm against cvxpy": cvxpy,
    "Fixed rank against pymanopt": pymanopt,
    "Nuclear norm: measurements until recovery": nuclear_phase,
    "Fixed rank: how often it recovers": fixed_phase,
    "Distillation with Adam": distill,
}
FILES = ("against_cvxpy", "against_pymanopt", "phase", "phase", "distill")


def page() -> str:
    parts = (
        f"## {title}\n\n{part() if load(file) else 'not measured yet'}\n"
        for (title, part), file in zip(PARTS.items(), FILES, strict=True)
    )
    return "\n".join([HEAD, *parts])


def main() -> None:
    print(page(), end="")


if __name__ == "__main__":
    main()
