"""What a recovery returns: the model, what it cost, how sure it is, and why."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from ._models import Model, Placed, drawn_model, heads_figure, load, save, save_figure, written_whole

MOST_PAIRS = 128  # predictions and answers that are kept: enough for a picture
UNNOTICED = 0.05  # the probability with which what `unseen` says passes
MODEL_FILE, RESULT_FILE = "model.safetensors", "recovery.json"


@dataclass(frozen=True)
class Checked:
    """How sure it is that a box is of the family that it was taken for.

    >>> round(Checked(sequences=40, within=0.01).unseen, 3)
    0.072

    `within` is what was allowed, a share of the range of answers; 0 for yes and no. `predicted` and `answered` are
    numbers to draw one against the other, at most `MOST_PAIRS` of them: what the model said, and what the box.
    """

    sequences: int
    within: float
    predicted: tuple[float, ...] = field(default=(), repr=False)
    answered: tuple[float, ...] = field(default=(), repr=False)

    @property
    def unseen(self) -> float:
        """The largest share of ordinary sequences on which a box may be further off and pass in 5% of cases."""
        return 1 - UNNOTICED ** (1 / self.sequences)

    def pairs(self) -> dict[str, list[float]]:
        """What was predicted and answered, as JSON has it."""
        return {"predicted": list(self.predicted), "answered": list(self.answered)}

    def __str__(self) -> str:
        within = f", within {self.within:.2g} of the range of answers" if self.within else ""
        return (
            f"{self.sequences} ordinary sequences of 1 to 64 tokens are answered as predicted{within}; a box further "
            f"off on {self.unseen:.1%} of such would have been noticed with a confidence of {1 - UNNOTICED:.0%}"
        )


@dataclass(frozen=True)
class Recovery:
    """The result of `gh.recover` and of the functions of `gh.paper`.

    `bound` and `bound_v` are upper bounds on `||W_hat - W||_F` and `||v_hat - v||` that follow from the oracle's
    promise, for a box that evaluates its formula in floating point as it stands; `None` where nothing is guaranteed.
    Where nothing was promised and noise was seen they are ends of confidence intervals, as `reason` then says.
    `confidence` is 1 where the bounds follow from the promise. Less than 1 it is that of a statistical statement, as
    `reason` says: of the bounds, or, where there are none, how likely the fresh queries were to show a model that is
    wrong on one of four. It is 0 where nothing is stated, neither bounded nor checked.
    `residual` is the largest error on fresh held-out queries over the largest answer among them, `None` if not checked.
    `checked` says how sure it is that the box is of the family: what was asked, and what could still pass.
    From signs v has norm 1 and `bound_v` is for that, `limit` is in bits, and an error is a value of the wrong sign.
    """

    model: Model
    family: str
    heads: int
    rank: int | tuple[int, ...]
    queries: int
    limit: int
    bound: float | None
    bound_v: float | None
    confidence: float
    residual: float | None
    reason: str
    checked: Checked | None = None

    @property
    def overhead(self) -> float:
        """Queries over the information limit."""
        return self.queries / self.limit

    def to_dict(self) -> dict[str, Any]:
        """All fields, `model` as the name of its file in a saved folder."""
        checked = None if (made := self.checked) is None else asdict(made) | made.pairs()
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return fields | {"model": MODEL_FILE, "checked": checked}

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write `model.safetensors` and `recovery.json` into `folder`, which is made if need be."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        save(self.model, folder / MODEL_FILE)
        with written_whole(folder / RESULT_FILE) as part:
            part.write_text(json.dumps(self.to_dict(), indent=2) + "\n")
        return folder

    def plot(self, path: str | os.PathLike[str] | None = None, *, truth: Any = None) -> Any:
        """A figure for a paper, of every head's W and its singular values; needs matplotlib, the extra `report`.

        >>> found.plot("W.svg")  # doctest: +SKIP
        <Figure size 640x280 with 3 Axes>

        Returns a `matplotlib.figure.Figure`, and writes it to `path` in the format that its ending names. `truth` is
        the true model: its singular values are drawn too, and how far off W is. A recovery has something to draw if
        its model has heads: `gh.Attention`, `gh.MultiHead`, `gh.Block`, and one head with anything behind it.
        """
        heads = [np.asarray(head.W, float) for head in drawn_model(self.model).heads]
        true = None if truth is None else [np.asarray(head.W, float) for head in drawn_model(truth, "truth").heads]
        ranks = self.rank if isinstance(self.rank, tuple) else (self.rank,) * len(heads)
        figure = heads_figure(heads, ranks, true, f"{self.family}, {self.queries:,} queries")
        if path is not None:
            save_figure(figure, path)
        return figure

    def __str__(self) -> str:
        def number(x: float | None) -> str:
            return "not known" if x is None else f"{x:.2g}"

        lines = [
            f"{self.family}: {self.model}",
            f"  queries    {self.queries:,} = {self.overhead:.4g} x the information limit of {self.limit:,}",
            f"  rank       {self.rank}",
            f"  |dW|_F  <= {number(self.bound)}, |dv| <= {number(self.bound_v)} (confidence {self.confidence:.4g})",
            f"  held out   {number(self.residual)}",
            f"  {self.reason}",
            *([] if self.checked is None else [f"  {self.checked}"]),
        ]
        return "\n".join(lines)


UNSAID: dict[str, Any] = {"bound": None, "bound_v": None, "confidence": 0.0, "residual": None}


def recovered(model: Model, rank: int | tuple[int, ...], **fields: Any) -> Recovery:
    """A recovery with these fields, of the model's family and with a head for each rank; neither bounded nor checked
    unless they say so."""
    heads = len(rank) if isinstance(rank, tuple) else 1
    return Recovery(model, model.family, heads, rank, **UNSAID | fields)


LARGEST_FILE = 2**24  # bytes of a file that is read whole: it holds a dozen numbers, a sentence and at most a history
NUMBER = int, float
PAIRS = {"predicted", "answered"}
# What the fields of a saved recovery are, after JSON.
FIELD_KINDS: dict[str, tuple[type, ...]] = {
    "model": (str,),
    "family": (str,),
    "heads": (int,),
    "rank": (int, list),
    "queries": (int,),
    "limit": (int,),
    "bound": (*NUMBER, type(None)),
    "bound_v": (*NUMBER, type(None)),
    "confidence": NUMBER,
    "residual": (*NUMBER, type(None)),
    "reason": (str,),
    "checked": (dict, type(None)),
}
COUNTED = 2.0**53  # queries: a float counts no further
# The least and the most they may be, if they are numbers. Infinite errors say nothing, and are still saved.
COUNTS = {"rank": (0, COUNTED), "queries": (0, COUNTED), "limit": (1, COUNTED)}
FIELD_RANGES = COUNTS | {"confidence": (0, 1)} | dict.fromkeys(("bound", "bound_v", "residual"), (0, np.inf))


def load_recovery(folder: str | os.PathLike[str]) -> Recovery:
    """Read back what `found.save(folder)` wrote; anything else is refused with the reason, as a ValueError or an
    OSError. The model is a file of that very folder."""
    path = Path(folder) / RESULT_FILE
    if not path.is_file():
        raise FileNotFoundError(
            f"no recovery in {folder}: expected a file {RESULT_FILE}, written by found.save(folder)"
        )
    fields = load_fields(path)
    model = path.parent / fields["model"]
    if model.resolve().parent != path.parent.resolve():
        raise ValueError(f"expected the model in the folder of {path}, got {fields['model']!r}, which lies outside")
    rank: int | list[int] = fields["rank"]
    fields |= {"rank": tuple(rank) if isinstance(rank, list) else rank, "model": load(model)}
    found = Recovery(**fields)
    made = found.model.model if isinstance(found.model, Placed) else found.model
    said = {"family": found.family, "heads": found.heads, "ranks": len(each(rank))}
    for name, true in {"family": made.family, "heads": len(made.heads), "ranks": len(made.heads)}.items():
        if said[name] != true:
            raise ValueError(f"expected {name} in {path} to be {true!r}, as in {model.name}, got {said[name]!r:.60}")
    return found


def load_fields(path: Path) -> dict[str, Any]:
    """The fields of a recovery, each of its kind."""

    def refused(why: object) -> ValueError:
        return ValueError(f"{path} is not a recovery written by found.save: {why}")

    if path.stat().st_size > LARGEST_FILE:
        raise refused(f"it has more than {LARGEST_FILE:,} bytes")
    try:
        fields: dict[str, Any] = {"checked": None} | json.loads(path.read_text(encoding="utf-8"))
        differ = FIELD_KINDS.keys() ^ dict(fields).keys()
    except (ValueError, TypeError, RecursionError) as error:
        raise refused(error) from error
    if differ:
        raise refused(f"it lacks, or should not have, {', '.join(sorted(differ))}")
    for name, value in fields.items():
        if not isinstance(value, FIELD_KINDS[name]) or isinstance(value, bool):
            raise refused(f"{name} is of type {type(value).__name__} there")
    if not all(type(one) is int for one in each(fields["rank"])):
        raise refused("its ranks are not whole numbers")
    for name, (least, most) in FIELD_RANGES.items():
        if not all(x is None or (is_float(x) and least <= x <= most) for x in each(fields[name])):
            raise refused(f"expected {name} to be a float from {least} to {most:g}, got {fields[name]!s:.60}")
    if (checked := fields["checked"]) is not None:
        fields["checked"] = checked_of(checked)
        if fields["checked"] is None:
            raise refused(f"expected checked to be a count, a share and numbers, got {checked!s:.200}")
    return fields


def checked_of(fields: dict[str, Any]) -> Checked | None:
    """What these fields say, None where they are not those of a `Checked`; older files have no pairs of numbers."""
    if fields.keys() - PAIRS != {"sequences", "within"} or type(fields["sequences"]) is not int:
        return None
    predicted, answered = numbers_of(fields.get("predicted", [])), numbers_of(fields.get("answered", []))
    within, sequences = fields["within"], fields["sequences"]
    fits = 1 <= sequences <= COUNTED and is_float(within) and within >= 0
    if not fits or predicted is None or answered is None or len(predicted) != len(answered):
        return None
    return Checked(sequences, within, predicted, answered)


def numbers_of(value: Any) -> tuple[float, ...] | None:
    """The numbers of a list, None where it is none of numbers."""
    several = cast("list[Any]", value) if isinstance(value, list) else list[Any]([None])
    return tuple(float(x) for x in several) if all(is_float(x) for x in several) else None


def is_float(x: Any) -> bool:
    """Whether a float can be that number: it may be infinite, and no NaN."""
    return type(x) in NUMBER and (abs(x) < 2**1023 or abs(x) == np.inf)


def each(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]
