"""The official OpenAPI page of the Open Inference Protocol, mended so that requests can be made from it.

The page is fetched by `python -m tests.serve.specification`, which `make fuzz` calls, and is not kept here. A path in
it has a `$` before each brace, which no server has; a model is only ever asked with a version, which the text of the
protocol calls optional; and any string may be the name of a model, so that every request would be about another one.
"""

from __future__ import annotations

import copy
import hashlib
import urllib.request
from pathlib import Path
from typing import Any

import yaml

COMMIT = "18d5991e9e45d291f53103cc79e13ecc6212ffae"
PLACE = f"kserve/open-inference-protocol/{COMMIT}/specification/protocol/open_inference_rest.yaml"
PAGE = Path(__file__).parents[2] / ".fuzz" / "open_inference_rest.yaml"
NAME, VERSION = "MODEL_NAME", "MODEL_VERSION"
PATIENCE = 60  # seconds


def fetch() -> None:
    with urllib.request.urlopen(f"https://raw.githubusercontent.com/{PLACE}", timeout=PATIENCE) as answer:
        content = answer.read()
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_bytes(content)


def official() -> tuple[dict[str, Any], dict[str, str]]:
    """The page as it is, and which one it is."""
    content = PAGE.read_bytes()
    return yaml.safe_load(content), {"page": PLACE, "sha256": hashlib.sha256(content).hexdigest()}


def mended(page: dict[str, Any], name: str, version: str, question: dict[str, Any]) -> dict[str, Any]:
    """The page with paths that a server has, with and without the version, about one model; and with a question that
    the model can answer as an example, since one made from the schema alone is never about its input."""
    page, paths = copy.deepcopy(page), {}
    for written, item in page["paths"].items():
        path = written.replace("${", "{")
        for parameter in item.get("parameters", ()):
            parameter["schema"]["enum"] = [{NAME: name, VERSION: version}[parameter["name"]]]
        if "post" in item:
            item["post"]["requestBody"]["content"]["application/json"]["example"] = question
        paths[path] = item
        if f"/versions/{{{VERSION}}}" in path:
            paths[path.replace(f"/versions/{{{VERSION}}}", "")] = without_version(item)
    return page | {"paths": paths}


def without_version(item: dict[str, Any]) -> dict[str, Any]:
    item = copy.deepcopy(item)
    item["parameters"] = [parameter for parameter in item["parameters"] if parameter["name"] != VERSION]
    for operation in (item[method] for method in ("get", "post") if method in item):
        operation["operationId"] += "-any-version"
    return item


if __name__ == "__main__":
    fetch()
