"""Servers of others as processes on this machine, each until its block ends; what they print is kept beside them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .environments import environment
from .head import Head

HERE = Path(__file__).parent
PATIENCE = 300  # seconds until a server must have come up

# vLLM: nothing is looked up or reported anywhere, one thread, little memory.
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def running(command: Iterable[object], ready: str, log: Path, cwd: Path, **variables: str) -> Generator[None]:
    """A process in `cwd`, from when `ready` answers; it is ended with the block."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **variables}
    with log.open("w") as file:
        process = subprocess.Popen(
            [str(each) for each in command], cwd=cwd, env=inherited | variables, stdout=file, stderr=subprocess.STDOUT
        )
        try:
            wait(process, ready, log)
            yield
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait(process: subprocess.Popen, ready: str, log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:
        try:
            with urllib.request.urlopen(ready, timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError as error:
            if getattr(error, "code", None) == 401:  # it asks for a token
                return
            time.sleep(0.5)
    last = log.read_text().strip().splitlines()[-1:] or ["nothing"]
    raise RuntimeError(f"expected a server to come up, got {last[0][:300]}")


@contextmanager
def mlserver(folder: Path, files: list[Path]) -> Generator[str]:
    """MLServer with the heads of some files; its address."""
    python, (http, grpc, metrics) = environment("mlserver", folder), free_ports(3)
    models = folder / "mlserver-models"
    for file in files:
        head = Head(str(file))
        settings = {"name": head.name, "implementation": "mlserver_head.HeadRuntime", "parameters": {"uri": str(file)}}
        (models / head.name).mkdir(parents=True, exist_ok=True)
        settings |= {"inputs": head.inputs, "outputs": head.outputs}
        (models / head.name / "model-settings.json").write_text(json.dumps(settings))
    ports = {"http_port": http, "grpc_port": grpc, "metrics_port": metrics}
    (models / "settings.json").write_text(
        json.dumps({"host": "127.0.0.1", "parallel_workers": 0, "debug": False, **ports})
    )
    command, url = [python.with_name("mlserver"), "start", "."], f"http://127.0.0.1:{http}"
    with running(command, f"{url}/v2/health/ready", folder / "mlserver.log", models, PYTHONPATH=str(HERE)):
        yield url


@contextmanager
def kserve(folder: Path, files: list[Path]) -> Generator[str]:
    """The Python server of KServe with the heads of some files; its address."""
    python, [port] = environment("kserve", folder), free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = [python, HERE / "kserve_head.py", port, *files]
    with running(command, f"{url}/v2/health/ready", folder / "kserve.log", folder, PYTHONPATH=str(HERE)):
        yield url


@contextmanager
def vllm(folder: Path, model: Path, *options: str) -> Generator[str]:
    """vLLM on the CPU with the model of a folder, named llama; its address."""
    python, [port] = environment("vllm", folder), free_ports(1)
    given = ["--served-model-name", "llama", "--host", "127.0.0.1", "--port", port, "--max-model-len", "128"]
    command = [python, "-m", "vllm.entrypoints.cli.main", "serve", model, *given]
    command += ["--enforce-eager", "--skip-tokenizer-init", *options]
    url = f"http://127.0.0.1:{port}"
    with running(command, f"{url}/v1/models", folder / "vllm.log", folder, **QUIET):
        yield url


def blank(protocol: str, box: str, asked: str, most: float | None) -> dict[str, Any]:
    """A row of the record, to be filled: what was found at which cost and with which error, which should be `most` at
    most where a number is asked for, or why nothing was found."""
    unknown = dict.fromkeys(("found", "queries", "error", "bound", "refusal"))
    return {"protocol": protocol, "box": box, "asked": asked, **unknown, "most": most, "notes": []}


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
