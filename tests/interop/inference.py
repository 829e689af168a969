"""Heads behind servers of the Open Inference Protocol (KServe V2): what the servers do, and what is recovered."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

import glasshead as gh

from .head import INPUT, OUTPUT
from .servers import blank, say

DIM, RANK, OUTPUTS = 64, 8, 3
ASKED = "gh.recover(gh.from_http(url))"
JSON, BINARY = "Open Inference Protocol, JSON", "Open Inference Protocol, binary"
MOST = {"FP64": 1e-12, "FP32": 1e-5}  # the distance of a recovered head from the one that is served
Serving = Callable[[Path, list[Path]], AbstractContextManager[str]]


def heads() -> dict[str, tuple[str, gh.Attention]]:
    """By the name of the model: what it is in words, and the head."""
    full, low = gh.Attention.random(DIM, seed=1), gh.Attention.random(DIM, rank=RANK, seed=2)
    v = np.random.default_rng(3).standard_normal((DIM, OUTPUTS))
    return {
        "head-FP64": (f"a head, d = {DIM}, FP64", full),
        "low-FP64": (f"a head of rank {RANK}, d = {DIM}, FP64", gh.Attention(low.W, low.v)),
        "several-FP64": (f"a head with {OUTPUTS} outputs, d = {DIM}, FP64", gh.Attention(full.W, v)),
        "head-FP32": (f"a head, d = {DIM}, FP32", full),
    }


def rows(folder: Path, name: str, serving: Serving) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A row of the record for each head behind one server, asked in JSON, and for the first in binary as well; and what
    the server does."""
    files = [folder / f"{model}.safetensors" for model in heads()]
    for file, (_, head) in zip(files, heads().values(), strict=True):
        gh.save(head, file)
    try:
        with serving(folder, files) as url:
            about = get(f"{url}/v2")
            common, does = {"server": name, "version": about["version"]}, what_it_does(url, about)
            asked = [*((model, False) for model in heads()), ("head-FP64", True)]
            found = [common | recovered(f"{url}/v2/models/{model}", model, binary) for model, binary in asked]
            return found, does
    except Exception as error:
        say(f"{name}: {error}")
        words = f"not run: {type(error).__name__}: {error}"
        return [{"server": name, "version": None, **blank(JSON, "heads", ASKED, 0.0), "refusal": words}], {}


def recovered(url: str, model: str, binary: bool) -> dict[str, Any]:
    """What a recovery makes of a head; the error is the distance from the head in the file."""
    words, truth = heads()[model]
    most = None if binary else MOST[model.rpartition("-")[2]]  # nobody promised that binary data are understood
    filled = blank(BINARY if binary else JSON, words, ASKED, most)
    try:
        oracle = gh.from_http(url, binary=binary or "auto")
        filled["notes"] = list(oracle.notes)
        found = gh.recover(oracle)
        filled |= {"found": f"{found.family}, rank {found.rank}", "queries": oracle.queries, "bound": found.bound}
        filled["error"] = gh.distance(found.model, truth)
    except gh.GlassheadError as error:
        filled["refusal"] = f"{type(error).__name__}: {error}".replace(url.partition("/v2")[0], "http://HOST")
    say(f"{url}: {filled['found']}, {filled['error']}, {filled['refusal']}")
    return filled


def what_it_does(url: str, about: dict[str, Any]) -> dict[str, Any]:
    """How a server answers two sequences, and what it says of itself."""
    model = f"{url}/v2/models/head-FP64"
    X = np.random.default_rng(4).standard_normal((2, 1, DIM))
    asked = {"name": INPUT, "shape": list(X.shape), "datatype": "FP64"}
    nested = {**asked, "data": X.tolist()}
    message = {"id": "17", "inputs": [{**asked, "data": X.ravel().tolist()}]}
    [declared] = get(model)["outputs"]
    reply = post(f"{model}/infer", message)[1]
    [answered] = [output for output in reply["outputs"] if output["name"] == OUTPUT]
    head = json.dumps({"id": "17", "inputs": [{**asked, "parameters": {"binary_data_size": X.nbytes}}]}).encode()
    size = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
    return {
        "extensions that it lists": about["extensions"],
        "output declared as": declared["shape"],
        "output of 2 sequences": answered["shape"],
        "data are nested": isinstance(answered["data"][0], list),
        "id is echoed": reply.get("id") == "17",
        "status for nested data": post(f"{model}/infer", {"id": "17", "inputs": [nested]})[0],
        "status for binary data": post(f"{model}/infer", head + X.tobytes(), **size)[0],
        "status and words for an unknown model": list(post(f"{url}/v2/models/nobody/infer", message)),
    }


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


def post(url: str, message: Any, **headers: str) -> tuple[int, Any]:
    """Status and body of the answer, as JSON where it is some."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        try:
            return error.code, json.loads(text)
        except ValueError:
            return error.code, text
