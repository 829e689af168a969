"""Asks a server with open-inference-openapi, a client generated from the specification; run inside its environment,
with the file that says what to ask:

python ask_openapi.py FILE
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import httpx
from open_inference.openapi.client import InferenceRequest, OpenInferenceClient
from open_inference.openapi.core.api_error import ApiError


def request(asked: dict, datatype: str, width: int | None = None) -> InferenceRequest:
    X = [[token[:width] for token in x] for x in asked["sequences"]]
    entry = {"name": asked["input"], "shape": [len(X), len(X[0]), len(X[0][0])], "datatype": datatype, "data": X}
    return InferenceRequest(id="17", inputs=[entry], outputs=[{"name": asked["output"]}])


def refused(call: Callable[[], Any]) -> list:
    try:
        call()
    except ApiError as error:
        return [error.status_code, error.body]
    return [200, "answered"]


def main(asked: dict) -> dict[str, Any]:
    model = asked["model"]
    with httpx.Client(headers=asked["headers"]) as known, httpx.Client() as unknown:
        client, stranger = (OpenInferenceClient(base_url=asked["url"], httpx_client=one) for one in (known, unknown))
        return said(asked, model, client, stranger)


def said(asked: dict, model: str, client: OpenInferenceClient, stranger: OpenInferenceClient) -> dict[str, Any]:
    answers, echoed = {}, []
    for datatype in ("FP64", "FP32"):
        reply = client.model_infer(model, request=request(asked, datatype))
        [output] = reply.outputs
        answers[f"{datatype}, JSON"] = {"shape": output.shape, "data": output.data.dict()["__root__"]}
        echoed.append(reply.id == "17")
    client.check_server_liveness()
    client.check_server_readiness()
    client.check_model_readiness(model)
    half, same = len(asked["sequences"][0][0]) // 2, request(asked, "FP64")
    [versioned] = client.model_version_infer(model, "1", request=same).outputs
    did = {
        "live": True,
        "ready": True,
        "model is ready": True,
        "another model is ready": refused(lambda: client.check_model_readiness("nobody")),
        "server": client.read_server_metadata().dict(),
        "model": client.read_model_metadata(model).dict(),
        "model of a version is the same": client.read_model_version_metadata(model, "1").dict()
        == client.read_model_metadata(model).dict(),
        "answers of a version are the same": versioned.data.dict()["__root__"] == answers["FP64, JSON"]["data"],
        "id is echoed": all(echoed),
        "without a token": refused(lambda: stranger.model_infer(model, request=same)),
        "an unknown model": refused(lambda: client.model_infer("nobody", request=same)),
        "vectors of half the length": refused(lambda: client.model_infer(model, request=request(asked, "FP64", half))),
    }
    return {"answers": answers, "did": did}


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        print(json.dumps(main(json.load(file))))
