"""A head as a runtime of MLServer; run inside its environment, from a folder with one folder of settings per model."""

from __future__ import annotations

from head import OUTPUT, Head
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class HeadRuntime(MLModel):
    async def load(self) -> bool:
        self._head = Head(self.settings.parameters.uri)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        answers = self._head(NumpyCodec.decode_input(payload.inputs[0]))
        outputs = [NumpyCodec.encode_output(OUTPUT, answers)]
        return InferenceResponse(id=payload.id, model_name=self.name, outputs=outputs)
