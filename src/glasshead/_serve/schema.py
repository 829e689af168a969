"""The messages of the Open Inference Protocol as the OpenAPI page shows them: what is read and written by hand, since
numbers may follow in binary, is described here."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

Numbers = list[float] | list[list[float]] | list[list[list[float]]]


class Server(BaseModel):
    """The server itself."""

    name: str
    version: str
    extensions: list[str]


class Live(BaseModel):
    """Whether the server runs."""

    live: bool


class Ready(BaseModel):
    """Whether the server answers; with a name, whether that model does."""

    name: str | None = None
    ready: bool


class TensorMetadata(BaseModel):
    """A tensor that the model takes or gives; a size of -1 is free."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(BaseModel):
    """What the model takes and gives."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class Reshape(BaseModel):
    """The sizes that a tensor has on its way, where `dims`, which cannot be empty, says others."""

    shape: list[int]


class TensorConfiguration(BaseModel):
    """A tensor of one sequence; a size of -1 is free."""

    name: str
    data_type: str
    dims: list[int]
    reshape: Reshape | None = None


class ModelConfiguration(BaseModel):
    """What the model takes and gives, as Triton's extension of the protocol says it."""

    name: str
    platform: str
    backend: str
    max_batch_size: int
    input: list[TensorConfiguration]
    output: list[TensorConfiguration]


class InputParameters(BaseModel):
    """Where the numbers follow the JSON in binary: how many bytes they have."""

    model_config = ConfigDict(extra="allow")
    binary_data_size: int | None = Field(default=None, ge=0)


class InputTensor(BaseModel):
    """Sequences of tokens, B of N tokens of length d: flat or nested numbers, or `binary_data_size` instead of them."""

    name: str
    shape: list[int] = Field(min_length=3, max_length=3)
    datatype: str = Field(description="FP64 or FP32, and in binary also FP16 or BF16")
    parameters: InputParameters | None = None
    data: Numbers | None = None


class OutputParameters(BaseModel):
    """How this output is to travel."""

    model_config = ConfigDict(extra="allow")
    binary_data: bool | None = None


class WantedOutput(BaseModel):
    """An output that is asked for."""

    name: str
    parameters: OutputParameters | None = None


class RequestParameters(BaseModel):
    """How outputs are to travel that say nothing themselves."""

    model_config = ConfigDict(extra="allow")
    binary_data_output: bool | None = None


class InferenceRequest(BaseModel):
    """A question: one input, `tokens`."""

    id: str | None = None
    parameters: RequestParameters | None = None
    inputs: list[InputTensor] = Field(min_length=1, max_length=1)
    outputs: list[WantedOutput] | None = Field(default=None, max_length=1)


class OutputTensor(BaseModel):
    """Answers, one for each sequence, or as many numbers as the model has outputs; in binary without `data`."""

    name: str
    shape: list[int]
    datatype: str
    parameters: dict[str, Any] | None = None
    data: list[float] | list[bool] | None = None


class InferenceResponse(BaseModel):
    """Answers, with the id of the question if that had one."""

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[OutputTensor]


class Problem(BaseModel):
    """Why there is no answer."""

    error: str
