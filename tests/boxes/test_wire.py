"""Tensors on the wire of the Open Inference Protocol: bit for bit there and back, and nothing that is no number."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import glasshead as gh
from glasshead._boxes.wire import BINARY_ONLY, DATATYPES, LENGTH_HEADER, Tensor, packed, unpacked

FINITE = st.floats(allow_nan=False, allow_infinity=False)
SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)


def both_ways(tensors, binary):
    body, headers = packed({"id": "7"}, "outputs", tensors, binary)
    message, back = unpacked(body, {name.lower(): value for name, value in headers.items()}, "outputs")
    assert message == {"id": "7"}
    return back


def equal(a, b):
    return (a.name, a.datatype, a.array.shape) == (b.name, b.datatype, b.array.shape) and (
        np.ascontiguousarray(a.array).tobytes() == np.ascontiguousarray(b.array).tobytes()
    )


@settings(deadline=None)
@given(arrays.arrays("<f8", SHAPES, elements=FINITE), st.booleans())
def test_doubles_travel_bit_for_bit(array, binary):
    [back] = both_ways([Tensor("y", array, "FP64")], binary)
    assert equal(back, Tensor("y", array, "FP64"))


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(sorted(set(DATATYPES) - {"BF16"})))
def test_every_datatype_travels_in_binary_and_most_as_json(data, datatype):
    dtype = DATATYPES[datatype]
    array = data.draw(
        arrays.arrays(dtype, SHAPES, elements=arrays.from_dtype(dtype, allow_nan=False, allow_infinity=False))
    )
    tensors = [Tensor("a", array, datatype), Tensor("b", array[::-1], datatype)]
    for binary in (True,) if datatype in BINARY_ONLY else (True, False):
        assert all(equal(*pair) for pair in zip(both_ways(tensors, binary), tensors, strict=True))


def test_bfloat16_is_the_nearest_one():
    torch = pytest.importorskip("torch")
    numbers = np.random.default_rng(0).standard_normal(1000).astype("f4") * 10.0 ** np.arange(-5, 5).repeat(100)
    numbers = np.r_[numbers, 0.0, -0.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 3e38, np.inf].astype("f4")
    [back] = both_ways([Tensor("y", numbers, "BF16")], binary=True)
    np.testing.assert_array_equal(back.array, torch.tensor(numbers).to(torch.bfloat16).float().numpy())


@pytest.mark.parametrize("datatype", BINARY_ONLY)
def test_short_formats_travel_only_in_binary(datatype):
    with pytest.raises(ValueError, match="expected binary=True"):
        packed({}, "inputs", [Tensor("x", np.ones(1), datatype)], binary=False)
    body = json.dumps({"outputs": [{"name": "y", "shape": [1], "datatype": datatype, "data": [1.0]}]})
    with pytest.raises(gh.OracleError, match="as binary data, got JSON"):
        unpacked(body.encode(), {}, "outputs")


def read(data, shape=(2, 2), datatype="FP64", **more):
    entry = {"name": "y", "shape": list(shape), "datatype": datatype, "data": data} | more
    return unpacked(json.dumps({"outputs": [entry]}).encode(), {}, "outputs")[1][0].array


def test_flat_and_nested_data_are_the_same():
    np.testing.assert_array_equal(read([1, 2.5, 3, 4]), [[1, 2.5], [3, 4]])
    np.testing.assert_array_equal(read([[1, 2.5], [3, 4]]), [[1, 2.5], [3, 4]])
    assert read([0.1], (1,), "FP32")[0] == np.float32(0.1)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([1.0, None, 3.0, 4.0], "got null among them"),
        (None, "got null among them"),
        ([[1.0, 2.0], [3.0, None]], "got null among them"),
        ([1.0, "2.0", 3.0, 4.0], 'got "2.0" among them'),
        (["1", "2", "3", "4"], 'got "1" among them'),
        ([True, False, True, True], "got true among them"),
        ([1.0, True, 3.0, 4.0], "got true among them"),
        ([[1.0, 2.0], [3.0]], r"got \[1.0, 2.0\] among them"),
        ([1.0, [2.0], 3.0, 4.0], r"got \[2.0\] among them"),
        ([1.0, 2.0, 3.0], r"got \[3\]"),
        ([[1.0], [2.0], [3.0], [4.0]], r"got \[4, 1\]"),
        ({"a": 1}, 'got {"a": 1} among them'),
    ],
)
def test_what_is_no_number_is_never_one(data, words):
    with pytest.raises(gh.OracleError, match=words):
        read(data)


def test_whole_numbers_that_do_not_fit_are_refused():
    with pytest.raises(gh.OracleError, match="INT8 in 'y', got a larger one"):
        read([300], (1,), "INT8")
    with pytest.raises(gh.OracleError, match=r"got 1.5 among them"):
        read([1.5], (1,), "INT64")


def test_nan_stays_nan():
    assert np.isnan(read([float("nan")], (1,)))[0]
    assert np.isinf(read([1e300], (1,), "FP32"))[0]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>", "expected JSON, got '<html>'"),
        (b'{"predictions": [1]}', 'expected a JSON object with a list of outputs, got \'{"predictions"'),
        (b"[1]", "expected a JSON object"),
        (b'{"outputs": [{"name": "y"}]}', "expected a tensor with a name, a shape"),
        (
            b'{"outputs": [{"name": "y", "shape": [1], "datatype": "BYTES", "data": ["a"]}]}',
            "a datatype among FP64.*BYTES",
        ),
        (b'{"outputs": [{"name": "y", "shape": [-1], "datatype": "FP64", "data": [1]}]}', r"a shape and.*\[-1\]"),
        (b'{"outputs": [{"name": "y", "shape": [1], "datatype": "FP64"}]}', "got null"),
    ],
)
def test_what_is_not_the_protocol_is_shown(body, words):
    with pytest.raises(gh.OracleError, match=words):
        unpacked(body, {}, "outputs")


def test_binary_data_that_do_not_add_up_are_refused():
    body, headers = packed({}, "outputs", [Tensor("y", np.ones(3), "FP64")], binary=True)
    headers = {name.lower(): value for name, value in headers.items()}
    with pytest.raises(gh.OracleError, match="24 announced and 23 sent"):
        unpacked(body[:-1], headers, "outputs")
    with pytest.raises(gh.OracleError, match="with all tensors"):
        unpacked(body + b"\0", headers, "outputs")
    with pytest.raises(gh.OracleError, match=LENGTH_HEADER):
        unpacked(body, {LENGTH_HEADER.lower(): "999999"}, "outputs")
    with pytest.raises(gh.OracleError, match=LENGTH_HEADER):
        unpacked(body, {LENGTH_HEADER.lower(): "-3"}, "outputs")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["FP64", "BF16", "INT8", "", "12"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["binary_data_size", "a"]), inner),
    max_leaves=6,
)
SHAPE = st.lists(st.integers(-1, 3), max_size=3) | JSON
ENTRY = st.fixed_dictionaries(
    {}, optional={"name": st.just("y") | JSON, "shape": SHAPE, "datatype": JSON, "data": JSON, "parameters": JSON}
)


@settings(deadline=None, max_examples=300)
@given(st.lists(ENTRY, max_size=2), st.binary(max_size=20), st.booleans())
def test_whatever_a_server_sends_is_tensors_or_an_error_about_the_box(entries, data, binary):
    head = json.dumps({"outputs": entries}).encode()
    try:
        _, tensors = unpacked(head + data, {LENGTH_HEADER.lower(): str(len(head))} if binary else {}, "outputs")
    except gh.OracleError:
        return
    for tensor, entry in zip(tensors, entries, strict=True):
        assert list(tensor.array.shape) == entry["shape"]
        assert tensor.datatype == entry["datatype"]


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"outputs": [' + b"[" * 200_000, b"\xff\xfe", b"1" * 5000])
def test_json_that_no_reader_bears(body):
    with pytest.raises(gh.OracleError, match="expected"):
        unpacked(body, {}, "outputs")
