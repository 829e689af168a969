"""The grid on a head: each verdict agrees with the error of the copy, measured here against the true model."""

from __future__ import annotations

import math
import re
from functools import partial

import numpy as np
import pytest

import glasshead as gh
from glasshead._audit import Finding

HEAD = gh.Attention.random(8, rank=2, seed=3)
THRESHOLD = 0.1


@pytest.fixture(scope="module")
def audited(tmp_path_factory) -> tuple[gh.Audit, dict[str, gh.Attention]]:
    """An audit in a folder, and the copies that it has left there, by the name of their setting."""
    folder = tmp_path_factory.mktemp("audit")
    found = gh.audit(HEAD, threshold=THRESHOLD, budget=20_000, folder=folder / "run")
    copies = {}
    for k, finding in enumerate(found.findings):
        (*files,) = (folder / "run" / "settings").glob(f"{k:02d}-*.safetensors")
        if files:
            model = gh.load(files[0])
            assert isinstance(model, gh.Attention)
            copies[finding.name] = model
    return found, copies


def fresh_error(copy: gh.Attention, up_to_factor: bool) -> float:
    """The copy's error on other sequences than the audit's, over the spread of the true answers."""
    rng = np.random.default_rng(99)
    X = [rng.standard_normal((40, n, HEAD.dim)) for n in (1, 2, 3, 5, 9, 17, 33, 64)]
    want, got = (np.concatenate([model(x) for x in X]) for model in (HEAD, copy))
    factor = got @ want / (got @ got) if up_to_factor else 1.0
    return float(np.sqrt(np.mean((factor * got - want) ** 2)) / want.std())


def test_there_are_at_least_25_settings_of_every_kind(audited):
    found, _ = audited
    assert len(found.findings) >= 25
    assert len({finding.name for finding in found.findings}) == len(found.findings)
    groups = {finding.group for finding in found.findings}
    assert groups == {
        "as it is", "rounding", "format", "noise", "fresh noise", "signs", "norms", "budget", "combined"
    }  # fmt: skip


def test_each_verdict_agrees_with_the_error_against_the_true_model(audited):
    found, copies = audited
    outcomes = set()
    for finding in found.findings:
        words, outcome = found.verdict(finding.name), found.row(finding)["outcome"]
        outcomes.add(outcome)
        if outcome in ("refused", "budget"):
            assert words.startswith(("not recovered", "not tried")), words
            assert finding.name not in copies or fresh_error(copies[finding.name], False) > THRESHOLD / 2
            continue
        copy, signs = copies[finding.name], finding.answers == "sign"
        error = fresh_error(copy, signs)
        assert error < 2 * THRESHOLD, (finding.name, words, error)
        if (digits := re.search(r"to (\d+) digit", words)) is not None:
            far = gh.distance(copy, HEAD, up_to_scale=signs)
            # sums are rounded in another order there
            assert far <= 10.0 ** -int(digits[1]) * 1.001 + 1e-15, (finding.name, words, far)
            assert far > 10.0 ** (-int(digits[1]) - 1) / 1.001 - 1e-15 or int(digits[1]) == 15
        percent = re.search(r"([\d.e-]+)(%?) off", words)
        if percent is not None:
            said = float(percent[1]) / (100 if percent[2] else 1)
            assert error / 3 < said < 3 * error, (finding.name, words, error)
    assert {"recovered", "partly", "direction", "budget"} <= outcomes


def test_bounds_hold(audited):
    found, copies = audited
    with_bounds = [finding for finding in found.findings if finding.returned and finding.bound is not None]
    assert len(with_bounds) >= 15
    for finding in with_bounds:
        copy = copies[finding.name]
        assert np.linalg.norm(copy.W - HEAD.W) <= finding.bound * np.linalg.norm(copy.W)


def test_a_defence_is_kept_where_the_error_stays_above_the_threshold(audited):
    found, _ = audited
    for finding in found.findings:
        row = found.row(finding)
        assert row["kept"] == (finding.error is None or finding.error >= THRESHOLD)
        limited = finding.limit is not None and finding.limit < found.parameters
        assert (finding in found.ranking) == (row["kept"] and (finding.fitted or limited))


def test_what_honest_users_lose_grows_with_the_defence(audited):
    found, _ = audited
    lost = {finding.name: finding.distortion for finding in found.findings}
    assert lost["as it is"] == lost["tokens clipped at 1 x honest"] == 0
    decimals = [lost[f"rounded to {k} decimal{'s' * (k > 1)}"] for k in range(8, 0, -1)]
    assert decimals == sorted(decimals)
    assert decimals[0] < 1e-8
    assert lost["noise 0.1"] == pytest.approx(0.1 / math.sqrt(3), rel=0.2)
    assert lost["fresh noise 0.1"] == pytest.approx(0.1, rel=0.2)
    assert 0.3 < lost["signs only"] < lost["signs, 5% of them wrong"] < 1


def test_bits_and_queries(audited):
    found, _ = audited
    by_name = {finding.name: finding for finding in found.findings}
    assert by_name["signs only"].bits == by_name["signs only"].queries
    assert by_name["as it is"].bits == 64 * by_name["as it is"].queries
    assert by_name["bfloat16"].bits == 16 * by_name["bfloat16"].queries
    assert by_name["rounded to 2 decimals"].bits < by_name["rounded to 8 decimals"].bits
    assert all(finding.queries <= finding.asked <= 2 * 20_000 for finding in found.findings)
    assert found.queries == 96 + sum(finding.asked for finding in found.findings)


def test_rounding_and_noise_alone_do_not_help_where_tokens_may_be_long(audited):
    found, _ = audited
    for name in ("rounded to 1 decimal", "rounded to 4 decimals", "noise 0.01"):
        assert not found.row(next(each for each in found.findings if each.name == name))["kept"]


def test_names_of_atlas(audited):
    found, _ = audited
    rows = {row["name"]: row for row in found.to_dict()["settings"]}
    assert rows["rounded to 1 decimal"]["mitigation"] == "AML.M0002"
    assert rows["tokens clipped at 1 x honest"]["mitigation"] == "AML.M0010"
    assert rows["bfloat16 + clipped"]["mitigations"] == ("AML.M0010", "AML.M0002")
    assert next(row for row in rows.values() if row["group"] == "budget")["mitigation"] == "AML.M0004"
    assert found.to_dict()["technique"] == "AML.T0024.002"


def test_a_threshold_below_what_a_copy_reaches_makes_the_defence_hold():
    coarse = {"bfloat16 + clipped": lambda f: gh.defences.bfloat16(gh.defences.clipped(f, 3.0))}
    strict = gh.audit(HEAD, defences=coarse, threshold=1e-7, budget=3000)
    finding = strict.findings[1]
    assert strict.row(finding)["kept"]
    assert finding in strict.ranking
    assert "bfloat16 + clipped" in strict.recommendation
    assert "no proof that nobody can" in strict.recommendation
    loose = gh.audit(HEAD, defences=coarse, threshold=0.5, budget=3000)
    assert not loose.row(loose.findings[1])["kept"]
    assert "Nothing that was done" in loose.recommendation


def test_own_defences_in_processes_come_out_the_same():
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    own = {f"{k} decimals": partial(gh.defences.rounded, decimals=k) for k in (3, 1)}
    here = gh.audit(HEAD, defences=own, budget=2000)
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        there = gh.audit(HEAD, defences=own, budget=2000, executor=executor)
    for one, other in zip(here.findings, there.findings, strict=True):
        assert timeless(one) == timeless(other)


def timeless(finding: Finding) -> dict:
    return {name: value for name, value in vars(finding).items() if name != "seconds"}


def test_several_heads():
    layer = gh.MultiHead.random(8, heads=2, rank=2, seed=1)
    found = gh.audit(layer, defences={"three decimals": partial(gh.defences.rounded, decimals=3)}, budget=5000)
    assert found.family == "multi-head"
    assert found.findings[0].returned
    assert found.findings[0].function_error < 1e-9
    assert found.verdict("as it is").startswith("recovered to ")


def test_an_unknown_setting_is_named():
    found = gh.audit(HEAD, defences={}, budget=2000)
    with pytest.raises(KeyError, match="as it is"):
        found.verdict("something else")
    assert str(found).startswith("as it is: recovered to ")
