"""The first look of every adapter: does an answer depend on when it was asked, and on its neighbours in the batch?"""

import numpy as np
import pytest

import glasshead as gh
from glasshead._boxes import check_box

HEAD = gh.Attention.random(4, seed=1)


def quantised(X):
    """What a dynamic quantisation does: the step follows the largest answer of the batch."""
    answers = HEAD(X)
    step = np.abs(answers).max() / 7
    return np.rint(answers / step) * step


def test_a_box_that_answers_each_sequence_alone_is_opened_with_eight_queries():
    oracle = check_box(HEAD, 4)
    assert oracle.queries == oracle.looked == 8
    assert oracle.notes == ("answers are repeated bit for bit, alone and in a batch",)


def test_the_first_look_counts():
    plain, looked = gh.recover(gh.ValueOracle(HEAD)), gh.recover(check_box(HEAD, 4))
    assert looked.queries == plain.queries + 8


def test_a_batch_dependent_box_is_refused_with_that_word():
    with pytest.raises(gh.TargetMismatch, match="batch-dependent") as refusal:
        check_box(quantised, 4)
    assert "alike alone and beside others" in refusal.value.evidence.law


def test_signs_of_a_batch_dependent_box():
    assert check_box(HEAD, 4, answers="sign").answers == "sign"
    with pytest.raises(gh.TargetMismatch, match="batch-dependent"):
        check_box(lambda X: np.full(len(X), len(X) == 1), 4, answers="sign")


def test_rounding_that_follows_the_batch_is_said_but_no_reason_to_refuse():
    oracle = check_box(lambda X: HEAD(X) * (1 + 1e-9 * len(X)), 4)
    assert "changes an answer by" in oracle.notes[0]


def test_noise_is_said():
    oracle = check_box(gh.defences.gaussian(HEAD, 1e-3), 4)
    assert "otherwise the next time" in oracle.notes[0]


def test_an_unknown_kind_of_answers_is_an_error():
    with pytest.raises(ValueError, match="expected answers to be one of"):
        check_box(HEAD, 4, answers="vector")
