"""Functions on torch tensors as boxes on arrays: their numbers' format, their device, and what they do in training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from .._errors import OracleError
from .._oracles import ROUNDOFF, as_array
from .base import needs
from .layout import Layout, parts

# Narrower formats in which torch may multiply matrices of float32, if its settings allow that; the digits of tf32 are
# cut off.
PRODUCTS = {"tf32": 2.0**-10, "bf16": ROUNDOFF["bfloat16"]}

Chosen = int | slice | str | Callable[[Any], Any] | None


def checked_output(output: Any) -> Chosen:
    if isinstance(output, bool) or not (output is None or isinstance(output, int | slice | str) or callable(output)):
        words = "an integer or a slice among the numbers of an answer, a name, or a callable that chooses"
        raise TypeError(f"expected output to be {words}; got {output!r}")
    return output


def chosen(returned: Any, output: Chosen) -> Any:
    """The tensor of answers in what a module returned: a tensor, a tuple (the first of it), or by name."""
    if callable(output):
        returned = output(returned)
    elif isinstance(output, str):
        names = list(returned) if isinstance(returned, Mapping) else []
        if output not in names:
            raise OracleError(
                f"expected output to name one of {names}, got {output!r}: {named_kind(returned)} is answered"
            )
        returned = returned[output]
    elif isinstance(returned, tuple | list) and len(returned) > 0:
        returned = returned[0]
    elif isinstance(returned, Mapping) and len(returned) == 1:
        (returned,) = returned.values()
    if not hasattr(returned, "ndim") or not hasattr(returned, "shape"):
        hint = f"; name one of {list(returned)} with output=" if isinstance(returned, Mapping) else ""
        raise OracleError(f"expected the box to answer a tensor, got {named_kind(returned)}{hint}")
    return returned


def picked(answers: Any, output: Chosen) -> Any:
    """Some of the k numbers of each answer, where `output` is an integer or a slice."""
    if not isinstance(output, int | slice):
        return answers
    most = answers.shape[1] if answers.ndim == 2 else 0
    if most == 0 or (isinstance(output, int) and not -most <= output < most):
        words = f"the {most} numbers" if most else "several numbers"
        raise OracleError(
            f"expected output to choose among {words} of an answer, got {output} for {named_kind(answers)}"
        )
    return answers[:, output]


def named_kind(returned: Any) -> str:
    shape = getattr(returned, "shape", None)
    size = f" of shape {tuple(shape)}" if shape is not None else f" of {len(returned)}" if sized(returned) else ""
    return f"{type(returned).__name__}{size}"


def sized(returned: Any) -> bool:
    return isinstance(returned, tuple | list | Mapping)


class TensorBox:
    """A box on arrays around `ask`, a function on tensors `(B, N, d)` or, as its layout says, `(N, B, d)`.

    Tensors are made in the format `dtype` on `device`, gradients are off, and autocasting stays as it was when the box
    was made, wherever it is asked.
    """

    def __init__(
        self, ask: Callable[[Any], Any], dtype: str, device: Any, output: Chosen = None, layout: Layout | None = None
    ):
        self.torch = needs("torch", "torch")
        self.ask, self.dtype, self.device, self.output = ask, dtype, self.torch.device(device), output
        self.layout = layout or Layout()
        self.autocast = casting(self.torch, self.device)
        self.products = products_in(self.torch, self.device) if dtype == "float32" else ""
        self.among = 1  # how many things the function returns, if more than one

    def read_returned(self, X: np.ndarray) -> Any:
        """The tensor of answers to an array, laid out as the function likes."""
        torch, cast = self.torch, self.autocast
        tokens = torch.tensor(X, dtype=getattr(torch, self.dtype), device=self.device)
        with torch.no_grad(), torch.autocast(self.device.type, dtype=cast, enabled=cast is not None):
            found = self.ask(tokens)
            self.among = len(found) if isinstance(found, tuple | list) else 1
            return chosen(found, self.output)

    def read_raw(self, X: np.ndarray) -> np.ndarray:
        return as_array(self.read_returned(X))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        read = [picked(self.layout.read(self.read_returned(self.layout.sent(part))), self.output) for part in parts(X)]
        return np.concatenate([as_array(answers) for answers in read])

    @property
    def roundoff(self) -> float:
        """The unit roundoff of the coarsest format in which it computes, as far as it is known."""
        formats = [self.dtype] + [name(self.autocast)] * (self.autocast is not None)
        return max(PRODUCTS.get(self.products, 0.0), *(ROUNDOFF[each] for each in formats))

    @property
    def promise(self) -> dict[str, Any]:
        """What an oracle should know of its numbers."""
        return {"dtype": "float32" if self.dtype == "bfloat16" else self.dtype, "rounds": self.roundoff}

    @property
    def notes(self) -> list[str]:
        said = [] if self.dtype == "float64" else [f"it is asked in {self.dtype}"]
        said += self.layout.notes
        if self.among > 1 and not callable(self.output):
            said.append(f"the first of {self.among} things that it returns is read")
        if self.autocast is not None:
            said.append(f"autocast to {name(self.autocast)} is on, and stays on for all its questions")
        if self.products in PRODUCTS:
            words = "torch.set_float32_matmul_precision('highest') forbids it"
            said.append(f"float32 matrices may be multiplied in {self.products}, which has fewer digits; {words}")
        return said


def name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def casting(torch: Any, device: Any) -> Any:
    """The format that autocasting here casts to, or None where it is off."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None


def products_in(torch: Any, device: Any) -> str:
    """The format in which torch's settings allow matrices of float32 to be multiplied."""
    backend = getattr(torch.backends, {"cuda": "cuda", "cpu": "mkldnn"}.get(device.type, ""), None)
    own = getattr(getattr(backend, "matmul", None), "fp32_precision", "ieee")
    return getattr(torch.backends, "fp32_precision", own) if own == "none" else own


def format_of(module: Any) -> tuple[list[str], str, list[str]]:
    """The format, alone in a list, and the device of a module's numbers, and what is to be said of them."""
    numbers = [tensor for tensor in (*module.parameters(), *module.buffers()) if tensor.is_floating_point()]
    if not numbers:
        return ["float64"], "cpu", []
    if any(tensor.device.type == "meta" for tensor in numbers):
        raise ValueError("expected a module whose parameters have values, got some on the meta device: load them first")
    formats = list(dict.fromkeys(name(tensor.dtype) for tensor in numbers))
    if unknown := [each for each in formats if each not in ROUNDOFF]:
        raise ValueError(f"expected parameters of {', '.join(ROUNDOFF)}, got {unknown[0]}; convert them first")
    said = [f"its parameters and buffers are of several formats, {' and '.join(formats)}"] if len(formats) > 1 else []
    devices = list(dict.fromkeys(str(tensor.device) for tensor in numbers))
    if len(devices) > 1:
        said.append(f"its parameters are on several devices, {' and '.join(devices)}: asked on the first")
    return formats[:1], devices[0], said


def refuse_training(module: Any) -> list[str]:
    """Refuses a module that answers at random, or changes, in training mode; notes a training mode without effect."""
    if not any(part.training for part in module.modules()):
        return []
    active = [
        f"{path or type(part).__name__} ({why})" for path, part in module.named_modules() for why in at_random(part)
    ]
    if active:
        more = f" and {len(active) - 3} others" if len(active) > 3 else ""
        words = f"got one in training mode, with {', '.join(active[:3])}{more} at work"
        raise ValueError(f"expected a module that answers the same each time, {words}: call module.eval()")
    return ["it is in training mode, in which nothing was found that would make a difference"]


def at_random(part: Any) -> Iterable[str]:
    """What a part does in training mode alone."""
    if not part.training:
        return
    if "BatchNorm" in type(part).__name__ or "InstanceNorm" in type(part).__name__:
        yield f"{type(part).__name__} of the batch"
    for attribute, value in vars(part).items():
        is_rate = "drop" in attribute or (attribute == "p" and "Dropout" in type(part).__name__)
        if is_rate and isinstance(value, float) and 0 < value <= 1:
            yield f"{attribute}={value:g}"
