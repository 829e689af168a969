"""`glasshead bench`: what recoveries of random boxes cost, and how exact they are, on this machine.

It takes seconds, asks boxes of the sizes that are named, and keeps nothing; `bench/`, at the top of the repository,
takes hours, measures what README.md and docs/ say, and keeps the numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from .._families import ANSWERS, FAMILIES, resolve
from .options import Answers, Json, Seed, examples, one_of
from .screen import console, number, patient_bar, print_json

if TYPE_CHECKING:
    from .._plan import Sizes

EXAMPLES = examples(
    "glasshead bench",
    "glasshead bench --family attention --dim 64 --dim 128 --rank 8",
    "glasshead bench --family multi-head --heads 4 --dim 32",
    "glasshead bench --family attention --family any-network --answers sign --dim 8",
    "glasshead bench --json",
)
DIMS = 16, 32, 64
HEADS, NEURONS = 2, 2  # of a box, where nobody says how many: heads, and neurons for each dimension
WARM = 16  # the dimension of the first box of a family, whose row is not kept: what is imported has no part in times
MEANING = (
    "limit: the information limit, free parameters over the numbers per answer; plan: the queries said beforehand, at "
    "most; error: gh.distance, relative, of W and of v; box: of the seconds, those in the box itself; overhead: all "
    "over those"
)

Progress = Callable[[int, int, str], None]  # of `(done, planned, what)`


def command(
    family: Annotated[
        list[str] | None,
        typer.Option(
            help=f"What the boxes are: {', '.join(FAMILIES)}; may be repeated, all of them if left out.",
            autocompletion=one_of(FAMILIES),
        ),
    ] = None,
    dim: Annotated[
        list[int] | None,
        typer.Option(min=1, help=f"The length of a token; may be repeated, {', '.join(map(str, DIMS))} if left out."),
    ] = None,
    rank: Annotated[int | None, typer.Option(min=1, help="The rank of W, which the recovery is not told.")] = None,
    heads: Annotated[int | None, typer.Option(min=1, help=f"Heads, where there are several; {HEADS}.")] = None,
    width: Annotated[
        int | None, typer.Option(min=1, help=f"Neurons, where there is a network; {NEURONS} for each dimension.")
    ] = None,
    answers: Answers = "value",
    seed: Seed = 0,
    as_json: Json = False,
) -> int:
    """Recover random boxes, and say what it cost and how exact it was.

    A box that is not recovered does not stop the others; the exit code is then the one that glasshead recover has.
    """
    chosen = tasks(family, dim, rank, answers, {"heads": heads, "width": width})
    with patient_bar() as progress:
        rows, code = find_costs(chosen, seed, progress)
    if as_json:
        print_json({"seed": seed, "answers": answers, "rows": rows})
    else:
        show_rows(chosen, rows)
    return code


class Task(NamedTuple):
    """A box to be made and recovered, and the most queries that its plan allows."""

    family: str
    box: Sizes
    plan: int

    @property
    def extent(self) -> dict[str, int | None]:
        """The sizes of the box, by their names."""
        names = FAMILIES[made_as(self.family)].sizes
        return {"dim": self.box.dim, "rank": self.box.rank} | {name: getattr(self.box, name) for name in names}

    @property
    def words(self) -> str:
        """Its dimension, and what else there is to say: `64, rank 8, 2 heads`."""
        more = {name: size for name, size in self.extent.items() if size and name != "dim"}
        said = (f"{size} heads" if name == "heads" else f"{name} {size}" for name, size in more.items())
        return ", ".join([str(self.box.dim), *said])


def made_as(family: str) -> str:
    return FAMILIES[family].made_as or family


def tasks(
    families: list[str] | None, dims: list[int] | None, rank: int | None, answers: str, given: dict[str, int | None]
) -> list[Task]:
    """One for each family and dimension; what cannot be planned is refused here, before a box is asked."""
    if answers not in ANSWERS:
        raise ValueError(f"expected --answers to be one of {ANSWERS}, got {answers!r}")
    names = families or [name for name, family in FAMILIES.items() if family.refusal(answers) is None]
    if unknown := [name for name in names if name not in FAMILIES]:
        raise ValueError(f"expected --family to be one of: {', '.join(FAMILIES)}; got {unknown[0]!r}")
    for option, size in given.items():
        if size is not None and not any(option in FAMILIES[made_as(name)].sizes for name in names):
            raise ValueError(f"expected no --{option} for {', '.join(names)}")
    return [task(name, dim, rank, answers, given) for name in names for dim in dims or DIMS]


def task(family: str, dim: int, rank: int | None, answers: str, given: dict[str, int | None]) -> Task:
    """A box with the sizes that are given, or else the usual ones."""
    from .._plan import Sizes, planned

    usual = {"heads": HEADS, "width": NEURONS * dim}
    sizes: dict[str, Any] = {name: given.get(name) or usual[name] for name in FAMILIES[made_as(family)].sizes}
    box = Sizes(dim, rank, answers=answers, **sizes)
    return Task(family, box, planned(box, family).queries)


def find_costs(chosen: list[Task], seed: int, progress: Progress | None) -> tuple[list[dict[str, Any]], int]:
    """A row for each, and the exit code: that of the first box that was not recovered, or 0."""
    from .._errors import GlassheadError
    from .outcome import exit_code

    rows, code, before = [], 0, 0
    warm_up(chosen)
    for each in chosen:
        report = partial(report_part, progress, before, sum(other.plan for other in chosen), each) if progress else None
        row = {"family": each.family} | each.extent | {"plan": each.plan}
        try:
            row |= find_cost(each, seed, report)
        except GlassheadError as error:
            row |= {"error": type(error).__name__, "message": str(error)}
            code = code or exit_code(error)
        rows.append(row)
        before += each.plan
    return rows, code


def warm_up(chosen: list[Task]) -> None:
    """Recovers a small box of every family that is to be measured."""
    from .._errors import GlassheadError

    for family, answers in dict.fromkeys((each.family, each.box.answers) for each in chosen):
        with suppress(GlassheadError):
            find_cost(task(family, WARM, None, answers, {}), 0, None)


def report_part(progress: Progress, before: int, planned: int, each: Task, done: int, _: int, what: str) -> None:
    """What one recovery reports, as part of them all."""
    progress(before + min(done, each.plan), planned, f"{each.family}, {each.words}: {what}")


def find_cost(each: Task, seed: int, report: Progress | None) -> dict[str, Any]:
    """What the recovery of one box took, and how far off it is."""
    import glasshead as gh

    sizes = each.extent
    model = resolve(f"_models:{FAMILIES[made_as(each.family)].model}").random(**sizes, seed=seed)
    box, signs = Timed(model), each.box.answers == "sign"
    oracle = gh.SignOracle(box) if signs else gh.ValueOracle(box)
    begun = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gh.HeadsMerged)  # their number shows in the distance
        # Another seed: with the same one the first queries would be the numbers that the box is made of.
        found = gh.recover(oracle, family=each.family, seed=seed + 1, progress=report)
    took = perf_counter() - begun
    return {
        "queries": found.queries,
        "limit": found.limit,
        "distance": gh.distance(found.model, model, up_to_scale=signs) if hasattr(model, "heads") else None,
        "seconds": took,
        "box_seconds": box.seconds,
        "overhead": took / box.seconds,
    }


class Timed:
    """A model that keeps the time that its answers take."""

    def __init__(self, model: Any):
        self.model, self.dim, self.seconds = model, model.dim, 0.0

    def __call__(self, X: Any) -> Any:
        begun = perf_counter()
        answers = self.model(X)
        self.seconds += perf_counter() - begun
        return answers


def show_rows(chosen: list[Task], rows: list[dict[str, Any]]) -> None:
    """A line for each box; below the table what the columns mean, and why what was not recovered was not."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    for name in ("family", "d", "queries", "limit", "plan", "error", "seconds", "box", "overhead"):
        table.add_column(name, justify="left" if name in ("family", "d") else "right")
    failed = []
    for each, row in zip(chosen, rows, strict=True):
        if "error" in row:
            table.add_row(each.family, each.words, "", "", f"{each.plan:,}", Text("failed", style="red"))
            failed.append(f"{each.family}, d = {each.words}: {row['error']}: {row['message']}")
            continue
        queries = Text(f"{row['queries']:,}", style="yellow" if row["queries"] > each.plan else "")
        counts = (queries, f"{row['limit']:,}", f"{each.plan:,}")
        times = (seconds(row["seconds"]), seconds(row["box_seconds"]), f"{row['overhead']:.1f} x")
        table.add_row(each.family, each.words, *counts, number(row["distance"]), *times)
    screen = console()
    screen.print(table)
    for words in failed:
        screen.print(Text(words, style="red"))
    screen.print(Text(MEANING, style="dim"))


def seconds(x: float) -> str:
    return f"{x:.2g}" if x < 10 else f"{x:.0f}"
