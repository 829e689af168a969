"""Requests that are nearly right, and files that nearly are models, from a seed.

`python -m tests.serve.fuzz` sends 5,000 of the first to a server, reads 5,000 of the second and writes
`bench/results/fuzz.json`.

Where `.fuzz/bin/schemathesis` is (`make fuzz` puts it there), more than half of the requests are its own, made from the
OpenAPI page of the server and from the official one of the protocol. Most of the others have numbers in binary.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from bench.load import resident

import glasshead as gh
from tests.serve.running import HEADER, Running, question
from tests.serve.specification import mended, official

ROOT = Path(__file__).parents[2]
SCHEMATHESIS = ROOT / ".fuzz" / "bin" / "schemathesis"
DIM = 4
ODD = (
    *(None, True, False, 0, -1, 1, 2, 7, 2**31, 2**63, 2**64, 10**30, -0.0, 0.5, 1e308, -1e-320, float("nan"), "", "x"),
    *("\ud800", "tokens", "answers", "FP64", "FP16", "BYTES", [], [[]], [[[]]], {}, {"a": {}}, [1, [2]], float("inf")),
)
METHODS = "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"
PATHS = "", "/infer", "/ready", "/versions/1/infer", "/versions/1", "/v2", "/v2/health/live", "/docs", "/openapi.json"


def places(message: Any) -> list[tuple[Any, Any]]:
    """Every entry of nested lists and objects, as what holds it and its key there."""
    keys = list(message) if isinstance(message, dict) else range(len(message)) if isinstance(message, list) else ()
    return [place for key in keys for place in ((message, key), *places(message[key]))]


def spoiled(message: Any, rng: random.Random) -> Any:
    """The message with a few entries exchanged, removed or put where they do not belong."""
    message = copy.deepcopy(message)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        found = places(message)
        if not found:
            break
        holder, key = rng.choice(found)
        match rng.randrange(4):
            case 0 if isinstance(holder, dict):
                del holder[key]
            case 1:
                holder[key] = copy.deepcopy(rng.choice(rng.choice(found)[:1]))
                if len(repr(message)) > 10**5:
                    holder[key] = None
            case _:
                holder[key] = copy.deepcopy(rng.choice(ODD))
    return message


def bitten(data: bytes, rng: random.Random) -> bytes:
    """The bytes with some changed, cut off, put in or repeated."""
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0:
                data = data[:at]
            case 1:
                data = data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:]
            case 2:
                data = data + data[at:]
            case _:
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    return data


def request(rng: random.Random) -> tuple[str, Any, str, dict[str, Any]]:
    """A path, a body, a method and headers."""
    message = question(DIM, sequences=rng.randrange(1, 4), tokens=rng.randrange(1, 4), id="7")
    message |= rng.choice([{}, {"parameters": {"binary_data_output": True}}, {"outputs": [{"name": "answers"}]}])
    kind = rng.randrange(5)
    if kind == 0:
        return "/infer", written(spoiled(message, rng)), "POST", {}
    if kind == 1:
        return "/infer", bitten(written(message), rng), "POST", {}
    if kind == 2:
        path = rng.choice(PATHS) + rng.choice(["", "", "/", "?a=%00", "%ff"])
        return path, written(spoiled(message, rng)) if rng.random() < 0.5 else None, rng.choice(METHODS), {}
    entry = message["inputs"][0]
    datatype = rng.choice(["FP64", "FP32", "FP16", "BF16"])
    data = np.array(entry.pop("data")).astype({"FP64": "<f8", "FP32": "<f4"}.get(datatype, "<f2")).tobytes()
    entry |= {"datatype": datatype, "parameters": {"binary_data_size": len(data)}}
    if kind == 3:
        message = spoiled(message, rng)
    head = written(message)
    length = rng.choice([len(head), len(head), len(head), len(head) + rng.randrange(-9, 9), "x", -1, 10**30])
    body = bitten(head + data, rng) if kind == 4 else head + data
    return "/infer", body, "POST", {HEADER: length}


def written(message: Any) -> bytes:
    return json.dumps(message).encode()


def send(server: Running, count: int, seed: int) -> dict[str, Any]:
    """So many requests: how they were answered, and what is wrong with that; a hang is a time-out, and raised."""
    rng, statuses, wrong, slowest, binary = random.Random(seed), Counter(), [], 0.0, 0
    for number in range(count):
        asked = request(rng)
        binary += HEADER in asked[3]
        start = time.perf_counter()
        status, message, _ = server.ask(asked[0], asked[1], asked[2], **asked[3])
        slowest = max(slowest, time.perf_counter() - start)
        statuses[status] += 1
        said = isinstance(message, dict) and isinstance(message.get("error"), str)
        if status >= 500 or (status >= 400 and not said and asked[2] != "HEAD"):
            wrong.append(f"{number}: {status} {message!r} to {asked!r}"[:1000])
    told = {"statuses": dict(sorted(statuses.items())), "slowest": slowest, "wrong": wrong}
    return {"requests": count, "binary": binary, **told}


def with_schemathesis(server: Running, count: int, seed: int, page: dict[str, Any], checks: str) -> dict[str, Any]:
    """About so many requests of schemathesis, by the number that the server has logged, and what it has to say."""
    before = len(server.lines)
    with tempfile.TemporaryDirectory() as folder:  # it keeps a cache where it runs
        Path(folder, "page.json").write_text(json.dumps(page))
        command = [SCHEMATHESIS, "run", "page.json", "--url", f"http://127.0.0.1:{server.port}", "--seed", seed]
        command += ["--phases", "examples,coverage,fuzzing", "--checks", checks]
        command += ["--max-examples", count // len(page["paths"])]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=1800, cwd=folder)
    lines = [line for line in server.lines[before:] if "status" in line]
    statuses = Counter(line["status"] for line in lines)
    wrong = [] if done.returncode == 0 else [done.stdout[-3000:]]
    wrong += [json.dumps(line) for line in lines if line["status"] >= 500]
    slowest = max(line["milliseconds"] for line in lines) / 1e3
    return {"requests": len(lines), "statuses": dict(sorted(statuses.items())), "slowest": slowest, "wrong": wrong}


def from_pages(server: Running, count: int, seed: int) -> dict[str, Any]:
    """Requests of schemathesis, half of them from the page of the server, half from the official one.

    The official page knows no status but 200 and 400, where the text of the protocol has all of them, so statuses are
    compared with the page of the server only.
    """
    checks = "not_a_server_error,content_type_conformance,response_schema_conformance"
    own = server.ask("/openapi.json")[1]
    page, which = official()
    page = mended(page, Path(server.path).name, "1", question(DIM, sequences=2, tokens=2))
    return {
        "schemathesis": with_schemathesis(server, count // 2, seed, own, f"{checks},status_code_conformance"),
        "official": which | with_schemathesis(server, count // 2, seed, page, checks),
    }


def models() -> list[Any]:
    return [
        gh.Attention(np.eye(3), np.ones(3), key_bias=np.ones(3), bias=1.0),
        gh.Attention.random(4, rank=2),
        gh.MultiHead.random(3, heads=2, rank=1),
        gh.Transformer.random(3, width=2),
        gh.FrontHead(np.eye(3), norm=gh.Norm("layer", 1e-5)),
        gh.Block.random(4, 2),
    ]


def mutated(content: bytes, rng: random.Random) -> bytes:
    """A safetensors file with its bytes changed, or its header, with a length that fits or not."""
    if rng.random() < 0.5:
        return bitten(content, rng)
    end = 8 + int.from_bytes(content[:8], "little")
    head = written(spoiled(json.loads(content[8:end]), rng))
    length = len(head) if rng.random() < 0.9 else rng.choice([0, 1, len(head) - 1, len(head) + 9, 2**40, 2**64 - 1])
    return length.to_bytes(8, "little") + head + content[end:]


def read(count: int, seed: int, folder: Path) -> dict[str, Any]:
    """So many files through `gh.load`: models all the same, refusals, and whatever else was raised."""
    rng, refused, loaded, wrong = random.Random(seed), Counter(), 0, []
    path, originals = folder / "model.safetensors", []
    for model in models():
        gh.save(model, path)
        originals.append(path.read_bytes())
    for number in range(count):
        path.write_bytes(mutated(rng.choice(originals), rng))
        try:
            gh.load(path)
            loaded += 1
        except (ValueError, OSError) as error:
            refused[type(error).__name__] += 1
            if not str(error):
                wrong.append(f"{number}: {type(error).__name__} without a word")
        except BaseException as error:
            wrong.append(f"{number}: {type(error).__name__}: {error}"[:500])
    return {"files": count, "loaded": loaded, "refused": dict(refused), "wrong": wrong}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.serve.fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = read(options.files, options.seed, Path(folder))
        path = Path(folder) / "head.safetensors"
        gh.save(gh.Attention.random(DIM, seed=1), path)
        with Running(path, "--max-bytes", 2**20, "--watch") as server:
            send(server, min(options.requests, 500), options.seed + 1)  # so that everything that is loaded once is
            before = resident(server.process.pid)
            result: dict[str, Any] = {"files": files}
            if SCHEMATHESIS.exists():
                result |= from_pages(server, options.requests * 2 // 3, options.seed)
            own = options.requests - sum(
                result.get(part, {}).get("requests", 0) for part in ("schemathesis", "official")
            )
            result["own"] = send(server, max(own, options.requests // 3), options.seed)
            result["memory"] = {"before": before, "after": resident(server.process.pid)}
    text = json.dumps({"seed": options.seed} | result, indent=1)
    (ROOT / "bench" / "results" / "fuzz.json").write_text(text + "\n")
    print(text)
    return int(any(part.get("wrong") for part in result.values()))


if __name__ == "__main__":
    sys.exit(main())
