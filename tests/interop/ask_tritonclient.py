"""Asks a server with NVIDIA's tritonclient; run inside its environment, with the file that says what to ask:

python ask_tritonclient.py FILE
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import tritonclient.http as triton

FORMATS = {"FP64": np.float64, "FP32": np.float32}


def infer(client: Any, asked: dict, X: np.ndarray, datatype: str, binary: bool, model: str | None = None, **more):
    more = {"headers": dict(asked["headers"]), **more}  # the client adds to them
    given = triton.InferInput(asked["input"], list(X.shape), datatype)
    given.set_data_from_numpy(X.astype(FORMATS[datatype]), binary_data=binary)
    wanted = [triton.InferRequestedOutput(asked["output"], binary_data=binary)]
    return client.infer(model or asked["model"], [given], outputs=wanted, request_id="17", **more)


def refused(client: Any, asked: dict, X: np.ndarray, **more: Any) -> list:
    try:
        infer(client, asked, X, "FP64", True, **more)
    except triton.InferenceServerException as error:
        return [int(error.status()), error.message()]
    return [200, "answered"]


def main(asked: dict) -> dict[str, Any]:
    X, model, headers = np.array(asked["sequences"]), asked["model"], asked["headers"]
    with triton.InferenceServerClient(asked["url"].removeprefix("http://")) as client:
        answers = {}
        for datatype in FORMATS:
            for binary in (False, True):
                reply = infer(client, asked, X, datatype, binary)
                found = reply.as_numpy(asked["output"])
                words = f"{datatype}, {'binary' if binary else 'JSON'}"
                answers[words] = {"shape": list(found.shape), "data": found.ravel().tolist()}
        versioned = infer(client, asked, X, "FP64", True, model_version="1").get_response()
        did = {
            "live": client.is_server_live(headers),
            "ready": client.is_server_ready(headers),
            "model is ready": client.is_model_ready(model, headers=headers),
            "another model is ready": client.is_model_ready("nobody", headers=headers),
            "server": client.get_server_metadata(headers),
            "model": client.get_model_metadata(model, headers=headers),
            "configuration": client.get_model_config(model, headers=headers),
            "id is echoed": versioned.get("id") == "17",
            "without a token": refused(client, asked, X, headers={}),
            "an unknown model": refused(client, asked, X, model="nobody"),
            "vectors of half the length": refused(client, asked, X[:, :, ::2]),
            "a compressed request": refused(client, asked, X, request_compression_algorithm="gzip"),
        }
    return {"answers": answers, "did": did}


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        print(json.dumps(main(json.load(file))))
