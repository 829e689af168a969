"""Whatever a file holds, `gh.load`, `gh.load_recovery` and the command line read a model or say what is wrong."""

import json
import os
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save, save_file

import glasshead as gh
from glasshead._cli.app import run
from glasshead._models import files
from glasshead._recovery import FIELD_KINDS, LARGEST_FILE

from .helpers import head

OURS = {"format": "glasshead", "version": "1"}
BAD_INPUT = 2


def refused(path, match="."):
    """Refused by the library, and by the command line with its exit code."""
    load = gh.load_recovery if path.is_dir() else gh.load
    with pytest.raises((ValueError, OSError), match=match):
        load(path)
    assert run(["compare", str(path), str(path), "--json"]) == BAD_INPUT


def tensors_of(family):
    models = {
        "attention": gh.Attention(np.eye(3), np.ones(3), key_bias=np.ones(3), bias=1.0),
        "multi-head": gh.MultiHead.random(3, heads=2, rank=1),
        "transformer": gh.Transformer.random(3, width=2),
        "any-network": gh.FrontHead(np.eye(3), norm=gh.Norm("layer", 1e-5)),
    }
    return {name: np.asarray(tensor, order="C") for name, tensor in models[family].tensors().items()}


BLOCK = {name: np.array(tensor) for name, tensor in gh.Block.random(3, 1, seed=1).tensors().items()}
FACTORS = {"v": np.ones(3), "bias": np.zeros(())}
WRONG = {
    "factors of other ranks": ("attention", FACTORS | {"Q": np.ones((2, 3)), "K": np.ones((1, 3))}, "like Q"),
    "factors of other dims": ("attention", FACTORS | {"Q": np.ones((2, 3)), "K": np.ones((2, 4))}, "like Q"),
    "NaN": ("attention", FACTORS | {"Q": np.full((1, 3), np.nan), "K": np.ones((1, 3))}, "finite"),
    "one axis": ("attention", FACTORS | {"Q": np.ones(3), "K": np.ones(3)}, "Q of shape"),
    "nothing": ("attention", FACTORS | {"Q": np.ones((0, 3)), "K": np.ones((0, 3))}, "Q of shape"),
    "no factor": ("attention", FACTORS | {"Q": np.ones((1, 3))}, "it has no 'K'"),
    "bools": ("attention", {"W": np.eye(3), "v": np.ones(3, bool), "bias": np.zeros(())}, "real numbers"),
    "no heads": ("multi-head", {"bias": np.zeros(())}, "heads >= 1"),
    "strange names": ("multi-head", {"bias": np.zeros(()), "heads.x.v": np.ones(3)}, "damaged"),
    "a head missing": ("multi-head", {"bias": np.zeros(()), "heads.7.v": np.ones(3)}, "it has no"),
    "eps of NaN": (
        "any-network",
        {"W": np.eye(3), "residual": np.ones(()), "rms_norm_eps": np.full((), np.nan)},
        "fin",
    ),
    "two eps": ("any-network", {"W": np.eye(3), "residual": np.ones(()), "rms_norm_eps": np.ones(2)}, "one number"),
    "residual of NaN": ("any-network", {"W": np.eye(3), "residual": np.full((), np.nan)}, "finite"),
    "a block whose free directions are none": ("block", {**BLOCK, "free": np.ones(())}, r"free directions \(f, d\)"),
    **{
        f"a block with {wrong} behind it in {name}": (
            "block",
            BLOCK | {name: np.full_like(BLOCK[name], wrong)},
            "finite",
        )
        for name, wrong in [("behind.S", np.nan), ("behind.c", np.inf), ("behind.A", np.nan), ("behind.C", -np.inf)]
    },
    "two residuals": ("any-network", {"W": np.eye(3), "residual": np.ones(2)}, "one number"),
}


@pytest.mark.parametrize("name", WRONG)
def test_damaged_models(name, tmp_path):
    family, tensors, match = WRONG[name]
    save_file(tensors, tmp_path / "x", OURS | {"family": family})
    refused(tmp_path / "x", match)


def test_formats_that_numpy_has_not_got(tmp_path):
    header = json.dumps({"W": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}, "__metadata__": OURS}).encode()
    (tmp_path / "x").write_bytes(struct.pack("<Q", len(header)) + header + b"\0\0")
    refused(tmp_path / "x", "is not a safetensors file that numpy can read|was not written|holds a None")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"\xff" * 8,
        struct.pack("<Q", 2**40),
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 4) + b"null",
        b"hello",
        struct.pack("<Q", 10**6) + b"[" * 10**6,
    ],
)
def test_files_that_are_none(content, tmp_path):
    (tmp_path / "x").write_bytes(content)
    refused(tmp_path / "x", "is not a safetensors file|was not written by gh.save")


def test_folders_and_links(tmp_path):
    with pytest.raises(IsADirectoryError, match=r"got the folder .*gh\.load_recovery"):
        gh.load(tmp_path)
    (tmp_path / "round").symlink_to(tmp_path / "round")
    refused(tmp_path / "round")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    refused(tmp_path / "nowhere", "no such model file")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "no such model file")


def test_files_larger_than_memory(tmp_path, monkeypatch):
    gh.save(head(3), tmp_path / "x")
    monkeypatch.setattr(files, "memory", lambda: 100.0)
    refused(tmp_path / "x", "GiB, more than there is memory")


@pytest.mark.parametrize("family", ["attention", "multi-head", "transformer", "any-network"])
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_bytes_changed(family, data, tmp_path_factory):
    """Cut short, bytes flipped, tensors exchanged for others: a model whose answers are numbers, or a refusal."""
    tensors = tensors_of(family)
    if data.draw(st.booleans()):
        name = data.draw(st.sampled_from(sorted(tensors)))
        shape = data.draw(st.lists(st.integers(0, 4), max_size=3))
        kind = data.draw(st.sampled_from([np.float64, np.float32, np.float16, np.int8, np.bool_, np.uint64]))
        tensors[name] = np.full(shape, data.draw(st.sampled_from([0, 1, 3])), kind)
    content = bytearray(save(tensors, OURS | {"family": family}))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=3)):
        content[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("files") / "x"
    path.write_bytes(content[: data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))])
    try:
        model = gh.load(path)
    except (ValueError, OSError):
        return
    assert repr(model)
    if not isinstance(model, gh.FrontHead):
        with np.errstate(all="ignore"):  # flipped exponents
            assert len(model(np.ones((2, 3, model.dim)))) == 2


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return gh.recover(head(3)).save(tmp_path_factory.mktemp("runs") / "first")


def rewritten(saved, folder, **fields):
    """The saved recovery with other fields."""
    (folder / "model.safetensors").write_bytes((saved / "model.safetensors").read_bytes())
    fields = json.loads((saved / "recovery.json").read_text()) | fields
    (folder / "recovery.json").write_text(json.dumps(fields))
    return folder


def test_the_kinds_of_fields_are_those_of_a_recovery(saved, tmp_path):
    assert set(FIELD_KINDS) == set(gh.Recovery.__dataclass_fields__)
    assert gh.load_recovery(rewritten(saved, tmp_path)).heads == 1


def test_a_recovery_that_points_outside(saved, tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    gh.save(head(3), tmp_path / "other.safetensors")
    outside = str(tmp_path / "other.safetensors")
    for name in ("../other.safetensors", outside, "..", ".", "", "../inside/../other.safetensors", "a\0b"):
        refused(rewritten(saved, inside, model=name), "outside|folder|null|not a safetensors")
    (inside / "link").symlink_to(outside)
    refused(rewritten(saved, inside, model="link"), "lies outside")


@pytest.mark.parametrize("content", ["", "{", "null", "[]", "3", '"text"', "{}", "[" * 10**5, "\0", '{"model": 3}'])
def test_no_recovery(content, tmp_path):
    (tmp_path / "recovery.json").write_text(content)
    refused(tmp_path, r"is not a recovery written by found\.save")


def test_recoveries_that_are_no_text_or_too_long(tmp_path):
    (tmp_path / "recovery.json").write_bytes(b"\xff\xfe\x00")
    refused(tmp_path, r"is not a recovery written by found\.save")
    (tmp_path / "recovery.json").write_text(" " * (LARGEST_FILE + 1))
    refused(tmp_path, "bytes")


HUGE = 10**400  # no float
OUT_OF_RANGE = [
    *(("bound", wrong) for wrong in (HUGE, float("nan"), -1, -HUGE)),
    *(("bound_v", wrong) for wrong in (HUGE, -1e-300)),
    *(("residual", wrong) for wrong in (HUGE, float("nan"), -1)),
    *(("confidence", wrong) for wrong in (7, HUGE, -0.1, float("nan"))),
    *(("queries", wrong) for wrong in (HUGE, -5)),
    *(("rank", wrong) for wrong in (-1, HUGE, [3, 3], [])),
    *(("limit", wrong) for wrong in (HUGE, 0)),
    ("heads", 9),
    ("family", "x"),
    ("family", "block"),
    *(("checked", {"sequences": 4, "within": wrong}) for wrong in (HUGE, -1, float("nan"))),
    ("checked", {"sequences": 4, "within": 0.1, "predicted": [HUGE], "answered": [1]}),
]


@pytest.mark.parametrize(("name", "value"), OUT_OF_RANGE, ids=lambda x: f"{x!s:.20}")
def test_fields_out_of_range_are_named(saved, tmp_path, name, value):
    refused(rewritten(saved, tmp_path, **{name: value}), rf"expected (the )?{name}")


def test_infinite_errors_are_read_back(saved, tmp_path):
    found = gh.load_recovery(rewritten(saved, tmp_path, bound=float("inf"), residual=float("inf"), bound_v=None))
    assert found.bound == found.residual == np.inf
    assert "inf" in str(found)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(name=st.sampled_from(sorted(FIELD_KINDS)), value=JSON)
def test_any_json_in_a_field(saved, tmp_path_factory, name, value):
    folder = rewritten(saved, tmp_path_factory.mktemp("fields"), **{name: value})
    try:
        found = gh.load_recovery(folder)
    except (ValueError, OSError):
        return
    assert isinstance(found, gh.Recovery)
    assert str(found)
