"""A module nobody here wrote: `torch.nn.TransformerEncoderLayer`."""

import numpy as np
import pytest
import torch

from .blocks import learn


class Layer:
    """One head of an encoder layer in evaluation mode: the last token's output, whole or through a read-out."""

    def __init__(self, dim, act, norm_first, readout, seed=0):
        torch.manual_seed(seed)
        self.module = torch.nn.TransformerEncoderLayer(
            dim, 1, 4 * dim, activation=act, batch_first=True, norm_first=norm_first, dtype=torch.float64
        ).eval()
        with torch.no_grad():
            for parameter in self.module.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        self.readout = torch.randn(dim, dtype=torch.float64) if readout else None

    def __call__(self, X):
        with torch.no_grad():
            last = self.module(torch.from_numpy(np.ascontiguousarray(X)))[:, -1]
            return (last if self.readout is None else last @ self.readout).numpy()

    def identifiable(self):
        attention, norm = self.module.self_attn, self.module.norm1
        dim = attention.embed_dim
        Q, K, _ = attention.in_proj_weight.detach().numpy().reshape(3, dim, dim)
        W, key_bias = K.T @ Q / np.sqrt(dim), K.T @ attention.in_proj_bias.detach().numpy()[:dim] / np.sqrt(dim)
        if not self.module.norm_first:
            return W, key_bias
        PG = (np.eye(dim) - 1 / dim) * norm.weight.detach().numpy()
        return PG @ W @ PG.T, PG @ (W @ norm.bias.detach().numpy() + key_bias)


@pytest.mark.parametrize("readout", [True, False])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("act", ["relu", "gelu"])
def test_an_encoder_layer_is_read(act, norm_first, readout):
    layer = Layer(32, act, norm_first, readout)
    found = learn(layer, 32)
    W, key_bias = layer.identifiable()
    assert found.error(W) <= 1e-8
    assert found.key_bias_error(key_bias) <= 1e-8
    assert found.bounded(W)
    assert (found.learned.model.norm is not None) == norm_first
    assert found.learned.model.residual
