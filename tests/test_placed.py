"""`gh.Placed`, a model with position vectors in front: what it takes, what it asks, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

import glasshead as gh

D = 8
TABLE = 0.3 * np.random.default_rng(3).standard_normal((80, D))


def test_what_a_placed_model_is_made_of():
    with pytest.raises(TypeError, match="a glasshead model"):
        gh.Placed(np.tanh, np.zeros((4, 8)))
    with pytest.raises(ValueError, match="positions of shape"):
        gh.Placed(gh.Attention.random(8), np.zeros((4, 7)))


@pytest.mark.parametrize("shape", [(3, 1), (2, 3, 1), (3, 9), (D,), (0, D), (1, 1, 3, D)])
def test_tokens_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"expected sequences of shape \(N, 8\) or \(B, N, 8\)"):
        gh.Placed(gh.Attention.random(D), TABLE)(np.zeros(shape))


def test_a_head_in_front_of_a_network_asks_several_tokens_each_at_its_place():
    head = gh.Attention.random(D, seed=1)

    def behind(Z):
        return np.tanh(np.stack([head(Z), Z[:, -1, 0]], axis=1))

    placed = gh.Placed(gh.FrontHead(head.W, key_bias=head.key_bias), TABLE)
    X = np.random.default_rng(0).standard_normal((3, 5, D))
    asked = []
    placed.ask(lambda Y: (asked.append(Y), behind(Y + TABLE[: Y.shape[1]]))[1])
    got = placed(X)
    assert max(Y.shape[1] for Y in asked) > 1
    want = gh.FrontHead(head.W, key_bias=head.key_bias, behind=behind)(X + TABLE[:5])
    np.testing.assert_allclose(got, want, atol=1e-12)


def test_the_longest_token_is_known_without_positions_too():
    placed = gh.Placed(gh.FrontHead(np.eye(D)), TABLE)
    placed.behind = gh.ValueOracle(gh.Attention.random(D), D, max_norm=50.0)
    assert placed.model.behind.max_norm == pytest.approx(50 - np.linalg.norm(TABLE, axis=1).max())


def test_what_answers_by_itself_asks_no_box():
    with pytest.raises(TypeError, match="answers by itself"):
        gh.Placed(gh.Attention.random(D), TABLE).ask(np.tanh)
    with pytest.raises(TypeError, match="a callable"):
        gh.Placed(gh.Block.random(D, heads=2), TABLE).behind = 3
    assert gh.Placed(gh.Attention.random(D), TABLE).behind is None


@pytest.mark.parametrize("name", ["block", "attention", "else.W"])
def test_a_file_with_other_names_is_refused_with_words(name, tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"positions": TABLE, name: np.eye(D)}, path, {"format": "glasshead", "version": "1", "family": "placed"})
    with pytest.raises(ValueError, match="the tensors of one model beside its positions"):
        gh.load(path)


def test_a_placed_model_is_audited_as_any_box():
    found = gh.audit(gh.Placed(gh.Attention.random(4, seed=1), TABLE[:, :4]), defences={}, budget=2000)
    assert (found.family, found.dim) == ("auto", 4)
