"""Asks a server with the REST client of KServe; run inside its environment, with the file that says what to ask:

python ask_kserve.py FILE
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx
import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig

FORMATS = {"FP64": np.float64, "FP32": np.float32}


async def infer(client: Any, asked: dict, X: np.ndarray, datatype: str, binary: bool, model: str | None = None) -> Any:
    headers = dict(asked["headers"])  # the client adds to them
    given = InferInput(asked["input"], list(X.shape), datatype)
    given.set_data_from_numpy(X.astype(FORMATS[datatype]), binary_data=binary)
    parameters = {"binary_data_output": True} if binary else None
    request = InferRequest(asked["model"], [given], request_id="17", parameters=parameters)
    return await client.infer(asked["url"], request, model or asked["model"], headers=headers)


async def refused(client: Any, asked: dict, X: np.ndarray, model: str | None = None) -> list:
    try:
        await infer(client, asked, X, "FP64", False, model)
    except httpx.HTTPStatusError as error:
        return [error.response.status_code, str(error).replace(asked["url"], "http://HOST")]
    return [200, "answered"]


async def main(asked: dict) -> dict[str, Any]:
    X, model, url, headers = np.array(asked["sequences"]), asked["model"], asked["url"], asked["headers"]
    answers, echoed = {}, []
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        for datatype in FORMATS:
            for binary in (False, True):
                reply = await infer(client, asked, X, datatype, binary)
                found = reply.outputs[0].as_numpy()
                words = f"{datatype}, {'binary' if binary else 'JSON'}"
                answers[words] = {"shape": list(found.shape), "data": found.ravel().tolist()}
                echoed.append(reply.id == "17")
        did = {
            "live": await client.is_server_live(url, headers),
            "ready": await client.is_server_ready(url, headers),
            "model is ready": await client.is_model_ready(url, model, headers),
            "another model is ready": await client.is_model_ready(url, "nobody", headers),
            "id is echoed": all(echoed),
            "without a token": await refused(client, asked | {"headers": {}}, X),
            "an unknown model": await refused(client, asked, X, "nobody"),
            "vectors of half the length": await refused(client, asked, X[:, :, ::2]),
        }
    return {"answers": answers, "did": did}


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        question = json.load(file)
    print(json.dumps(asyncio.run(main(question))))
