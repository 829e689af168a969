"""`gh.from_onnx`: an ONNX file, run by onnxruntime, as an oracle."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .._oracles import Oracle
from .._types import no_type_check
from .._validate import positive, whole
from .base import check_box, needs
from .graph import cut_at, embeddings
from .layout import Layout, checked_order, checked_place, find_layout, find_reading, parts
from .tensors import Chosen, checked_output, picked

FORMATS = {"tensor(double)": "float64", "tensor(float)": "float32", "tensor(float16)": "float16"}
IDS = {"tensor(int64)": "int64", "tensor(int32)": "int32"}

QUIET = 3  # of onnxruntime's levels: errors only
LACKING = "NOT_IMPLEMENTED"  # what it says of operations that it does not have for a format

# What other inputs with the axes (batch, tokens) are given, by the names that the usual exporters have for them. Ids
# remain an input where a file was cut behind its embedding and looks at their shape; 1 is no padding in most
# vocabularies.
USUAL_INPUTS: dict[str, Callable[[tuple[int, ...]], np.ndarray]] = {
    "attention_mask": np.ones,
    "token_type_ids": np.zeros,
    "position_ids": lambda shape: np.broadcast_to(np.arange(shape[1]), shape),
    "input_ids": np.ones,
}
FILLED = {"position_ids": "the places", "token_type_ids": "zeros"}
PAST = "past_key_values."  # keys and values of earlier tokens, (batch, heads, tokens, width): there are none
MERGED = "use_cache_branch"  # of files with two graphs, with and without earlier tokens


@no_type_check
def from_onnx(
    path: str | PathLike[str],
    input: str | None = None,
    output: str | int | slice | None = None,
    cut: str | None = None,
    *,
    dim: int | None = None,
    place: int = -1,
    batch_first: bool | None = None,
    answers: str = "value",
    max_norm: float | None = None,
    **promise: Any,
) -> Oracle:
    """An ONNX file, run by onnxruntime on the CPU, as an oracle.

    >>> oracle = gh.from_onnx("head.onnx")
    >>> found = gh.recover(oracle)

    Its `input` is the one that takes numbers of shape `(batch, tokens, d)`, or `(tokens, batch, d)`, and its output the
    first; where there are others, name them. `output` may also be an integer or a slice among the numbers of an answer.
    The format and `d` are read from the file, `dim` says d where the file
    does not. Attention masks are filled with ones, token types with zeros, position ids with the places. `cut` names an
    inner tensor to be the input instead, which a file that takes token ids needs: the error names the one behind its
    embedding. A batch of fixed size is filled up with copies; sequences of a fixed length cannot be asked.

    The last row of a sequence, its query token, is put at `place`, -1 for the last or 0 for the first, and answered
    there. The other keywords are those of `gh.ValueOracle` or, with `answers="sign"`, of `gh.SignOracle`.
    `oracle.notes` says what was found out.
    """
    place, batch_first, file = checked_place(place), checked_order(batch_first), Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"expected an ONNX file, there is none at {str(path)!r}")
    if cut is not None and input not in (None, cut):
        raise ValueError(f"expected input= or cut=, the tensor that takes its place, got {input!r} and {cut!r}")
    checked_output(output)
    named = output if isinstance(output, str) else None
    session = session_of(file, cut, named)
    tokens, answered = chosen_input(session, input if cut is None else cut, file), chosen_output(session, named)
    box = OnnxBox(session, tokens, answered, output)
    dim = checked_dim(box.shape[2], dim, box.input)
    longest = 1.0 if max_norm is None else min(1.0, positive(max_norm, "max_norm"))
    axis = fixed_axis(box, batch_first)
    if axis is None:
        box.layout, asked = find_layout(box.read_raw, dim, longest, Layout(place=place), batch_first)
    else:
        box.fixed = box.shape[axis]
        box.layout, asked = find_reading(box.read_raw, dim, longest, Layout(axis == 0, place), box.fixed)
    kw: dict[str, Any] = {"max_norm": max_norm, "dtype": box.dtype, **promise}
    return check_box(box, dim, answers=answers, notes=box.notes, asked=asked, **kw)


def session_of(file: Path, cut: str | None, output: str | None) -> Any:
    """onnxruntime with the file, or with the part of it behind an inner tensor."""
    runtime = needs("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = QUIET
    try:
        source = str(file) if cut is None else cut_at(str(file), cut, output)
        return runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except (ValueError, ImportError):
        raise
    except Exception as error:  # those of onnxruntime and protobuf have no base of their own
        why = f"{type(error).__name__}: {str(error).strip()}"
        why += "; it has no float64 for some operations, which an export in float32 does not need" * (LACKING in why)
        raise ValueError(f"expected an ONNX file that onnxruntime can run, got {str(file)!r} ({why})") from error


def listed(tensors: list[Any]) -> str:
    return ", ".join(f"{one.name!r} ({one.type.removeprefix('tensor')[1:-1]}, {one.shape})" for one in tensors)


def chosen_input(session: Any, name: str | None, file: Path) -> Any:
    """The input that takes vectors, by its name or because there is only one of three axes."""
    there = session.get_inputs()
    fitting = [one for one in there if one.type in FORMATS and len(one.shape) == 3]
    if name is not None:
        if name not in [one.name for one in there]:
            raise ValueError(f"expected input to name one of the file's, {listed(there)}; got {name!r}")
        fitting = [one for one in fitting if one.name == name]
    if len(fitting) == 1:
        return fitting[0]
    if len(fitting) > 1:
        raise ValueError(f"expected input= to say which of several takes the tokens: {listed(fitting)}")
    what = f"an input of numbers {(*FORMATS.values(),)} with the axes (batch, tokens, d)"
    if ids := [one for one in there if one.type in IDS and name in (None, one.name)]:
        raise ValueError(f"expected {what}; the file takes token ids, {listed(ids)}: {cut_advice(file)}")
    raise ValueError(f"expected {what}, got {listed(there)}")


def cut_advice(file: Path) -> str:
    """Where a file that takes token ids could be cut."""
    onnx = needs("onnx", "onnx")
    found = embeddings(onnx.load(str(file), load_external_data=False).graph)
    if not found:
        return "no embedding was found in it; cut= takes the name of any inner tensor with these axes"
    return f"cut={found[0]!r} asks what is behind its embedding"


def chosen_output(session: Any, name: str | None) -> Any:
    there = session.get_outputs()
    found = next((one for one in there if name in (None, one.name)), None)
    if found is None:
        raise ValueError(f"expected output to name one of the file's, {listed(there)}; got {name!r}")
    return found


def checked_dim(said: Any, dim: int | None, name: str) -> int:
    """The length of tokens, from the file or from the caller."""
    if not isinstance(said, int):
        if dim is None:
            raise ValueError(f"expected dim=, the length of tokens: the file does not say it of {name!r}")
        return whole(dim, "dim", least=1)
    if dim not in (None, said):
        raise ValueError(f"expected dim={said}, which the file says of {name!r}, got dim={dim}")
    return said


def fixed_axis(box: OnnxBox, batch_first: bool | None) -> int | None:
    """The axis of a batch of fixed size, or None where both axes are free; refuses sequences of a fixed length."""
    fixed = [axis for axis in (0, 1) if isinstance(box.shape[axis], int)]
    if not fixed:
        return None
    if len(fixed) == 1:
        batch = 0 if batch_first or (batch_first is None and box.shape[1] != 1) else 1
        if fixed[0] == batch:
            return batch
    words = f"{box.input!r} takes {box.shape}: its sequences have a fixed length, and recoveries ask many lengths"
    raise ValueError(f"expected an input with a free axis of tokens; {words}; export it with that axis dynamic")


def filling(one: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """What an input beside the tokens is given for a batch of this shape, or None for one that is not known."""
    numbers = FORMATS.get(one.type) or IDS.get(one.type) or bool
    if one.name in USUAL_INPUTS and len(one.shape) == 2:
        return np.ascontiguousarray(USUAL_INPUTS[one.name](shape), dtype=numbers)
    if one.name.startswith(PAST) and len(one.shape) == 4 and isinstance(one.shape[1], int):
        return np.zeros((shape[0], one.shape[1], 0, one.shape[3]), dtype=numbers)
    return np.zeros(1, dtype=bool) if one.name == MERGED else None


class OnnxBox:
    """A session of onnxruntime as a box on arrays."""

    def __init__(self, session: Any, tokens: Any, answered: Any, output: Chosen):
        self.session, self.input, self.output, self.among = session, tokens.name, answered.name, output
        self.dtype, self.shape = FORMATS[tokens.type], list(tokens.shape)
        self.others = [one for one in session.get_inputs() if one.name != tokens.name]
        self.several = [one.name for one in session.get_outputs()]
        self.layout, self.fixed, self.resent = Layout(), None, 0
        if strange := [one for one in self.others if filling(one, (1, 1)) is None]:
            words = f"{listed(strange)}, of which nothing is known: make it a constant of the file"
            raise ValueError(f"expected {self.input!r}, and {list(USUAL_INPUTS)} at most, as inputs; got {words}")

    def read_raw(self, X: np.ndarray) -> np.ndarray:
        """What the session answers to an array as it stands."""
        feeds = {self.input: np.ascontiguousarray(X, dtype=self.dtype)}
        feeds |= {one.name: filling(one, X.shape[:2]) for one in self.others}
        return np.asarray(self.session.run([self.output], feeds)[0])

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.concatenate([self.filled(part) for part in parts(X, self.fixed)])

    def filled(self, X: np.ndarray) -> np.ndarray:
        """The answers to at most so many sequences as a batch may have; one of fixed size is filled up with copies."""
        missing = (self.fixed or len(X)) - len(X)
        batch = np.concatenate([X, np.repeat(X[-1:], missing, axis=0)]) if missing else X
        self.resent += missing
        return picked(self.layout.read(self.read_raw(self.layout.sent(batch)))[: len(X)], self.among)

    @property
    def notes(self) -> list[str]:
        said = [] if self.dtype == "float64" else [f"it is asked in {self.dtype}"]
        said += [f"its output {self.output!r} is read, one of {self.several}"] * (len(self.several) > 1)
        said += [
            f"{one.name!r} is filled with {FILLED.get(one.name, 'ones')}"
            for one in self.others
            if one.name in USUAL_INPUTS
        ]
        said += [f"it takes batches of {self.fixed} only"] * (self.fixed is not None)
        return said + self.layout.notes
