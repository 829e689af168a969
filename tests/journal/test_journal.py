"""A run with a journal: stopped anywhere and run again, it gives what an uninterrupted run gives, and counts what was
asked twice."""

import sqlite3

import numpy as np
import pytest

import glasshead as gh
from glasshead._journal.recording import fingerprint

HEAD = gh.Attention.random(6, seed=1)


class Power(BaseException):
    """Nothing catches this: what happens when the power goes."""


class Failing:
    """A box that answers so many batches, and counts the sequences that it saw."""

    def __init__(self, f, batches):
        self.f, self.left, self.seen, self.last = f, batches, 0, 0

    def __call__(self, X):
        self.seen, self.last = self.seen + len(X), len(X)
        if self.left == 0:
            raise Power
        self.left -= 1
        return self.f(X)


def same(a, b):
    weights = [
        {name: value for name, value in vars(found.model).items() if isinstance(value, np.ndarray)} for found in (a, b)
    ]
    assert weights[0].keys() == weights[1].keys()
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])
    fields = ("family", "rank", "bound", "bound_v", "confidence", "residual", "reason", "checked", "limit")
    return all(getattr(a, name) == getattr(b, name) for name in fields)


BOXES = {
    "values": lambda f: gh.ValueOracle(f, 6),
    "signs": lambda f: gh.SignOracle(f, 6),
    "float32": lambda f: gh.ValueOracle(lambda X: f(X).astype(np.float32), 6, dtype="float32"),
    "promise": lambda f: gh.ValueOracle(gh.defences.noisy(f, 1e-6), 6, tolerance=1e-6),
}


@pytest.mark.parametrize("kind", BOXES)
@pytest.mark.parametrize("batches", [0, 1, 5, 17])
def test_a_stopped_run_goes_on_where_it_was(tmp_path, kind, batches):
    box, options = BOXES[kind], {"accuracy": 1e-2} if kind == "signs" else {}
    whole = gh.recover(box(HEAD), **options)
    first = Failing(HEAD, batches)
    with pytest.raises(Power):
        gh.recover(box(first), journal=tmp_path / "run.sqlite", **options)
    second = Failing(HEAD, 10**6)
    found = gh.recover(box(second), journal=tmp_path / "run.sqlite", **options)
    assert same(found, whole)
    assert found.queries == first.seen + second.seen  # everything that was sent, the lost batch twice
    lost_or_looked = found.queries - whole.queries
    assert lost_or_looked <= first.last + (16 if kind == "signs" else 1)  # a batch, and whether the box is the same


def test_a_run_stopped_many_times(tmp_path):
    whole, seen, stops = gh.recover(gh.ValueOracle(HEAD)), 0, 0
    while stops < 100:
        box = Failing(HEAD, 2)  # the first is whether it is the same box
        try:
            found = gh.recover(gh.ValueOracle(box, 6), journal=tmp_path / "run.sqlite")
        except Power:
            seen, stops = seen + box.seen, stops + 1
        else:
            break
    assert stops > 5
    assert same(found, whole)
    assert found.queries == seen + box.seen


def test_a_finished_run_asks_only_whether_the_box_is_the_same(tmp_path):
    whole = gh.recover(gh.ValueOracle(HEAD), journal=tmp_path / "run.sqlite")
    box = Failing(HEAD, 1)
    found = gh.recover(gh.ValueOracle(box, 6), journal=tmp_path / "run.sqlite")
    assert same(found, whole)
    assert (box.seen, found.queries) == (1, whole.queries + 1)


def test_an_oracle_of_the_users_own(tmp_path):
    class Own(gh.Oracle):
        def __init__(self, f):
            self.dim, self.f = 6, f

        def __call__(self, X):
            return self.f(X)

    with pytest.raises(Power):
        gh.recover(Own(Failing(HEAD, 3)), journal=tmp_path / "run.sqlite")
    found = gh.recover(Own(HEAD), journal=tmp_path / "run.sqlite")
    assert same(found, gh.recover(Own(HEAD)))


@pytest.mark.parametrize("wrong", ["nan", "shape", "raises"])
def test_what_is_no_answer_is_not_kept(tmp_path, wrong):
    """A box that fails once: the run stops with an error about the box, and the next one asks again."""
    spoilt = {"nan": lambda y: y * np.nan, "shape": lambda y: y[:, None], "raises": lambda y: 1 / 0}

    class Flaky(Failing):
        def __call__(self, X):
            answers = self.f(X)
            self.left, self.seen = self.left - 1, self.seen + len(X)
            return spoilt[wrong](answers) if self.left == 0 else answers

    box, whole = Flaky(HEAD, 4), gh.recover(gh.ValueOracle(HEAD))
    with pytest.raises(gh.OracleError):
        gh.recover(gh.ValueOracle(box, 6), journal=tmp_path / "run.sqlite")
    found = gh.recover(gh.ValueOracle(box, 6), journal=tmp_path / "run.sqlite")
    assert same(found, whole)
    assert found.queries == box.seen


def test_what_an_endpoint_was_sent_in_vain_is_counted(tmp_path):
    class Remote:
        resent = 0

        def __init__(self, batches):
            self.left = batches

        def __call__(self, X):
            if self.left == 0:
                self.resent += 3 * len(X)
                raise gh.OracleError("gone")
            self.left -= 1
            return HEAD(X)

    with pytest.raises(gh.OracleError, match="gone"):
        gh.recover(gh.ValueOracle(Remote(0), 6), journal=tmp_path / "run.sqlite")
    found, whole = gh.recover(gh.ValueOracle(HEAD), journal=tmp_path / "run.sqlite"), gh.recover(gh.ValueOracle(HEAD))
    assert found.queries == whole.queries + 2 + 3 * 2  # the opening of two sequences


def test_a_larger_budget_goes_on(tmp_path):
    with pytest.raises(gh.BudgetExceeded):
        gh.recover(gh.ValueOracle(gh.Attention.random(12, seed=1)), budget=120, journal=tmp_path / "run.sqlite")
    found = gh.recover(gh.ValueOracle(gh.Attention.random(12, seed=1)), budget=400, journal=tmp_path / "run.sqlite")
    assert found.queries <= gh.plan(12) + 1


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"seed": 1}, "seed=0, this run has seed=1"),
        ({"family": "attention"}, "family='auto'"),
        ({"rank": 2}, "rank=None"),
    ],
)
def test_other_arguments_are_refused_with_the_way_out(tmp_path, changed, words):
    gh.recover(gh.ValueOracle(HEAD), journal=tmp_path / "run.sqlite")
    with pytest.raises(gh.JournalError, match=words) as refusal:
        gh.recover(gh.ValueOracle(HEAD), journal=tmp_path / "run.sqlite", **changed)
    assert "name another journal to begin anew" in str(refusal.value)


def test_batches_of_another_size_are_refused(tmp_path):
    class Box:
        def __init__(self, batch):
            self.batch = batch

        def __call__(self, X):
            assert len(X) <= self.batch
            return HEAD(X)

    gh.recover(gh.ValueOracle(Box(16), 6), journal=tmp_path / "run.sqlite")
    with pytest.raises(gh.JournalError, match="batch=16, this run has batch=8"):
        gh.recover(gh.ValueOracle(Box(8), 6), journal=tmp_path / "run.sqlite")


def test_another_promise_or_version_is_refused(tmp_path):
    path = tmp_path / "run.sqlite"
    gh.recover(gh.ValueOracle(HEAD), journal=path)
    with pytest.raises(gh.JournalError, match=r"rtol=0\.0, this run has rtol=1e-09"):
        gh.recover(gh.ValueOracle(HEAD, rtol=1e-9), journal=path)
    with sqlite3.connect(path) as file:
        file.execute("UPDATE settings SET value = '\"0.0.1\"' WHERE name = 'version'")
    file.close()
    with pytest.raises(gh.JournalError, match=r"begun with version='0\.0\.1'"):
        gh.recover(gh.ValueOracle(HEAD), journal=path)


@pytest.mark.parametrize("kind", ["values", "signs", "promise"])
def test_another_box_is_noticed(tmp_path, kind):
    gh.recover(BOXES[kind](HEAD), journal=tmp_path / "run.sqlite")
    with pytest.raises(gh.JournalError, match="does not answer as it did"):
        gh.recover(BOXES[kind](gh.Attention.random(6, seed=2)), journal=tmp_path / "run.sqlite")


def test_noise_is_no_other_box(tmp_path):
    def noisy(seed):
        return gh.ValueOracle(gh.defences.gaussian(HEAD, 1e-3, seed=seed), 6)

    whole = gh.recover(noisy(0), accuracy=0.5, journal=tmp_path / "run.sqlite")
    assert same(gh.recover(noisy(1), accuracy=0.5, journal=tmp_path / "run.sqlite"), whole)


def test_replay_stops_at_the_first_other_question_and_says_so(tmp_path):
    path = tmp_path / "run.sqlite"
    whole = gh.recover(gh.ValueOracle(HEAD), journal=path)
    with sqlite3.connect(path) as file:
        ((batches,),) = file.execute("SELECT COUNT(*) FROM batches")
        file.execute("UPDATE batches SET fingerprint = x'00' WHERE number = ?", (batches - 2,))
    file.close()
    for _ in range(2):  # the third run uses what the second one stored
        found = gh.recover(gh.ValueOracle(HEAD), journal=path)
        assert found.reason == whole.reason + (
            "; the last 3 batches that the journal held were not used: this machine's arithmetic led to other "
            "questions from there on"
        )
        assert np.array_equal(found.model.W, whole.model.W)
        assert found.queries > whole.queries
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT COUNT(*) FROM batches").fetchone() == (batches + 3,)
    file.close()


def test_fingerprints_tell_questions_apart():
    X = np.random.default_rng(0).standard_normal((5, 3, 4))
    changed = X.copy()
    changed[2, 1, 3] = np.nextafter(changed[2, 1, 3], 9)
    others = [changed, X[::-1], X[:, ::-1], X[:, :, ::-1], X[:4], X.reshape(5, 4, 3), X.astype(np.float32), -X]
    marks = {fingerprint(other) for other in [X, *others]}
    assert len(marks) == 1 + len(others)
    assert fingerprint(X.copy()) == fingerprint(X)
