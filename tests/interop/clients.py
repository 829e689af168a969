"""Clients of others ask a real `glasshead serve`: what each of them gets, against the model's own answers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import glasshead as gh

from . import load_generator
from .environments import CLIENTS, PACKAGES, environment
from .servers import HERE, free_ports, running, say

DIM, OUTPUTS = 64, 3
TOKEN = "a-t0ken-of-clients"  # of the server of one of the boxes, in its environment
SEQUENCES, TOKENS = 8, 3
PATIENCE = 120  # seconds for all that a client asks
FORMATS = {"FP64": np.float64, "FP32": np.float32}

# By the name in the record: the environment, and the script that runs in it.
SCRIPTS = {
    "tritonclient": ("tritonclient", "ask_tritonclient.py"),
    "KServe's REST client": ("kserve", "ask_kserve.py"),
    "open-inference-openapi": ("openapi", "ask_openapi.py"),
}
CHECKS = {  # of what every client says, beside its answers
    "live": True,
    "ready": True,
    "model is ready": True,
    "id is echoed": True,
}


def boxes() -> dict[str, tuple[str, gh.Attention, tuple[str, ...]]]:
    """By the name of the model: what it is in words, the head, and the options of the server."""
    head = gh.Attention.random(DIM, seed=1)
    v = np.random.default_rng(3).standard_normal((DIM, OUTPUTS))
    return {
        "head": (f"a head, d = {DIM}", head, ()),
        "several": (f"a head with {OUTPUTS} outputs, d = {DIM}", gh.Attention(head.W, v), ()),
        "guarded": (f"a head behind a bearer token, d = {DIM}", head, ()),
        "signs": (f"signs of a head, d = {DIM}", head, ("--answers", "sign")),
    }


@contextmanager
def served(folder: Path, name: str) -> Generator[str]:
    """`glasshead serve` with one of the boxes; its address."""
    _, head, options = boxes()[name]
    file, [port] = folder / f"{name}.safetensors", free_ports(1)
    gh.save(head, file)
    url, source = f"http://127.0.0.1:{port}", str(Path(gh.__file__).parents[1])
    command = [sys.executable, "-m", "glasshead", "serve", file, "--port", port, *options]
    log = folder / f"serve-{name}.log"
    with running(command, f"{url}/v2/health/ready", log, folder, PYTHONPATH=source, GLASSHEAD_TOKEN=token_of(name)):
        yield url


def token_of(name: str) -> str:
    return TOKEN if name == "guarded" else ""


def rows(folder: Path) -> dict[str, Any]:
    """What goes into the record: a row for each client, box and way of asking, and what else the clients did."""
    found, did = [], {}
    for name, (words, head, _) in boxes().items():
        with served(folder, name) as url:
            for client in SCRIPTS:
                more, says = asked(folder, url, client, name)
                found += more
                did.setdefault(client, says)
                if name == "guarded" and says:
                    did[client]["without a token"] = says["without a token"]
            if name == "head":
                more, did[load_generator.CLIENT] = load_generator.rows(folder, url, name, words, head)
                found += more
    return {"rows": found, "did": did}


def asked(folder: Path, url: str, client: str, name: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A row for each way in which one client asks one box, and what else the client did there."""
    where, script = SCRIPTS[client]
    words, X = boxes()[name][0], np.random.default_rng(4).standard_normal((SEQUENCES, TOKENS, DIM))
    file = folder / "asked.json"
    headers = {"Authorization": f"Bearer {token_of(name)}"} if token_of(name) else {}
    file.write_text(json.dumps({"url": url, "model": name, **tensors(), "sequences": X.tolist(), "headers": headers}))
    common = {"client": client, "version": version_of(where), "box": words}
    try:
        command = [environment(where, folder), HERE / script, file]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=folder)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["nothing said"])[-1][:300])
        told = json.loads(done.stdout)
    except Exception as error:
        say(f"{client}, {words}: {error}")
        return [common | row("everything", refusal=f"not run: {type(error).__name__}: {error}")], {}
    found = [common | compared(name, X, way, answers) for way, answers in told["answers"].items()]
    wrong = {what: told["did"][what] for what, right in CHECKS.items() if told["did"][what] != right}
    if wrong:
        found.append(common | row("whether it answers", refusal=f"got {wrong}"))
    say(f"{client}, {words}: {[each['error'] for each in found]}")
    return found, told["did"]


def compared(name: str, X: np.ndarray, way: str, answers: dict[str, Any]) -> dict[str, Any]:
    """A row for answers to `X`, sent in a format; the error is the largest, and absolute."""
    own = boxes()[name][1](X.astype(FORMATS[way.partition(",")[0]]).astype(float))
    own = (own > 0).astype(float) if name == "signs" else own
    if answers["shape"] != list(own.shape):
        return row(way, refusal=f"expected answers of shape {list(own.shape)}, got {answers['shape']}")
    error = np.abs(np.array(answers["data"], dtype=float).reshape(own.shape) - own).max()
    return row(way, answers=own.size, error=float(error))


def row(
    asked: str, answers: int | None = None, error: float | None = None, refusal: str | None = None
) -> dict[str, Any]:
    """A row of the record: answers are the model's own, bit for bit, where the error is 0."""
    return {"asked": asked, "answers": answers, "error": error, "most": 0.0, "refusal": refusal}


def broken(rows: list[dict[str, Any]]) -> list[str]:
    """A sentence for each row in which a client did not get what it asked for, or got other numbers."""
    return [
        f"{row['client']}, {row['box']}, {row['asked']}: expected the model's own answers, "
        f"got {row['refusal'] or row['error']}"
        for row in rows
        if row["refusal"] is not None or (row["most"] is not None and row["error"] > row["most"])
    ]


def tensors() -> dict[str, str]:
    return {"input": "tokens", "output": "answers"}


def version_of(where: str) -> str:
    return (PACKAGES | CLIENTS)[where].partition("==")[2]
