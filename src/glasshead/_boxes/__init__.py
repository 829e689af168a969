"""Adapters to real systems: each makes an oracle around one kind of box, looks at it before a recovery asks, and
imports what it needs, an extra of its own, when it is called.

`base`: what adapters share: the first look, and the words for what is missing.
`layout`: which axis is the batch; `tensors`: functions on tensors as boxes on arrays; `torch`: modules and callables.
`transformers`: models of Hugging Face; `layer`: one of their layers.
`onnx`: files that onnxruntime runs; `graph`: where they can be cut.
`address`: where a box is, and its token; `transport`: HTTP for every box that is an endpoint, `parts`: batches as large
as it takes.
`http`: the Open Inference Protocol; `metadata`: what its servers say about a model; `wire`: tensors as it sends them.
`completions`: language models that take vectors as prompts; `logprobs`: what their servers say of the next token.
`replicas`: a batch answered by several of them; `executor`: on the workers of an executor of `concurrent.futures`;
`ray`: as actors of Ray, on the `cluster` that is there or is started here; `workers`: functions on that cluster.
"""

from .address import TOKEN, is_loopback
from .base import check_box, needs
from .completions import from_completions
from .executor import from_executor
from .http import from_http
from .layout import Layout, checked_place
from .metadata import VECTORS
from .onnx import from_onnx
from .ray import from_ray
from .torch import from_torch
from .transformers import from_transformers
from .wire import Tensor, packed, unpacked
from .workers import as_finished, ray_executor
