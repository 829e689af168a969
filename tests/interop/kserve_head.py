"""Heads behind the Python server of KServe, on this machine alone; run inside its environment:

python kserve_head.py PORT FILE ...
"""

from __future__ import annotations

import sys

import uvicorn
from head import OUTPUT, Head
from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer


class HeadModel(Model):
    def __init__(self, path: str):
        self.head = Head(path)
        super().__init__(self.head.name)
        self.ready = True

    async def get_input_types(self) -> list[dict]:
        return self.head.inputs

    async def get_output_types(self) -> list[dict]:
        return self.head.outputs

    def predict(self, payload: InferRequest, headers: dict | None = None, response_headers: dict | None = None):
        answers = self.head(payload.inputs[0].as_numpy())
        output = InferOutput(OUTPUT, list(answers.shape), self.head.datatype)
        output.set_data_from_numpy(answers, binary_data=bool(payload.use_binary_outputs))
        return InferResponse(payload.id, self.name, [output])


class Loopback(uvicorn.Config):
    """KServe listens on every address, and has no option for that."""

    def __init__(self, app, **options):
        super().__init__(app, **{**options, "host": "127.0.0.1"})


if __name__ == "__main__":
    uvicorn.Config = Loopback
    port, *files = sys.argv[1:]
    ModelServer(http_port=int(port), workers=1, enable_grpc=False).start([HeadModel(path) for path in files])
