"""Pages made from measured numbers show the measured ones, their examples run, and a promise missed is not hidden."""

from __future__ import annotations

import re

import pytest
from bench import (
    any_network,
    any_network_page,
    multi_head,
    multi_head_page,
    network,
    network_page,
    noise,
    signs,
    together,
    transformer,
    transformer_page,
    vector,
    whole_blocks,
)
from bench.fresh import ROOT
from bench.pages import PAGES
from bench.stored import load, number, power, wrapped

MEASURED = {
    "noise": noise,
    "signs": signs,
    "transformer": transformer,
    "any_network": any_network,
    "multi_head": multi_head,
    "vector": vector,
    "together": together,
    "network": network,
    "whole_blocks": whole_blocks,
}


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_in_sync_with_the_measurements(name):
    assert (ROOT / "docs" / name).read_text() == PAGES[name](), f"docs/{name} is out of date: run `make tables`"


@pytest.mark.parametrize(
    "name",
    [
        *("noise.md", "transformers.md", "networks.md", "any-network.md"),
        *("multi-head.md", "hugging-face.md", "audit.md"),
    ],
)
def test_examples_run(name):
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / name).read_text(), re.DOTALL)
    assert examples
    names = {}  # later examples go on from earlier ones
    for code in examples:
        exec(compile(code, name, "exec"), names)


@pytest.mark.parametrize("error", [1e-12, 2e-8])
def test_an_error_above_its_limit_is_marked_on_the_page(error, monkeypatch):
    found = load("transformer")
    for row in found["rows"]:
        row.update(function=error, W=error)
    monkeypatch.setattr(transformer_page, "load", lambda name: found if name == "transformer" else load(name))
    marks = 0 if error < 1e-10 else 2 * len(found["rows"])
    assert transformer_page.page().count("(missed)") == marks


@pytest.mark.parametrize(
    ("page", "name", "spoil"),
    [
        (any_network_page, "any_network", lambda r: r["rows"][0].update(error=2e-9)),
        (any_network_page, "any_network", lambda r: r["rows"][0].update(queries_per_score=10.1)),
        (multi_head_page, "multi_head", lambda r: r["synthetic"][0].update(W=2e-10)),
        (multi_head_page, "multi_head", lambda r: r["median_ratio"].update({"32,4,8": 1.23})),
        (multi_head_page, "multi_head", lambda r: r["minilm"][0].update(v=2e-12)),
        (multi_head_page, "multi_head", lambda r: r["float32"][0].update(W=2e-3)),
        (multi_head_page, "together", lambda r: r["hidden"][0].update(error=2e-8)),
        (multi_head_page, "vector", lambda r: r["published"][0].update(queries=2501)),
        (multi_head_page, "vector", lambda r: r["one_head"][0].update(W=2e-9)),
        (network_page, "network", lambda r: r["rows"][0].update(error=2e-9)),
        (network_page, "network", lambda r: r["rows"][0].update(queries=16_001)),
        (network_page, "whole_blocks", lambda r: r["rows"][0]["runs"][0].update(function=2e-8)),
    ],
)
def test_what_misses_its_limit_is_marked_where_it_stands(page, name, spoil, monkeypatch):
    assert "(missed)" not in page.page()
    found = load(name)
    spoil(found)
    monkeypatch.setattr(page, "load", lambda other: found if other == name else load(other))
    assert page.page().count("(missed)") == 1


@pytest.mark.parametrize(
    ("name", "spoil", "sentence"),
    [
        ("noise", lambda r: r["rounded"][3].update(error=1e-3), "two decimals, v with no zeros: median error 0.001"),
        ("noise", lambda r: r["bounds"]["rows"][0].update(smallest=0.9), "a bound is below the error"),
        ("noise", lambda r: r["bounds"]["pooled"][2].update(median=5.1), "5.1 times the error, more than 5"),
        ("noise", lambda r: [row.update(times=1999.0) for row in r["tolerated"]], "1999 times the paper's tolerance"),
        ("noise", lambda r: r["narrow"][0]["single"].update(error=6e-3), "float16: error 0.006 > 5e-03"),
        ("noise", lambda r: [row.update(W=0.8) for row in r["coverage"]], "intervals hold in"),
        ("signs", lambda r: r["full"][0].update(per_parameter=26.1), "26.10 queries per parameter > 26"),
        ("signs", lambda r: r["full"][0].update(rounds=10**4), "10000 rounds"),
        ("signs", lambda r: r["forty_bits"][0].update(error=2e-9), "error 2e-09"),
        ("signs", lambda r: r["low_rank"][0].update(queries=10**6), "1000000 queries > "),
        ("transformer", lambda r: r["rows"][0].update(W=2e-9), "W error 2e-09 > 1e-09"),
        ("transformer", lambda r: r["rows"][1].update(W=2e-8), "W error 2e-08 > 1e-08"),
        ("transformer", lambda r: r["rows"][0].update(told_apart=4), "4 of 5 told from a plain head"),
        ("transformer", lambda r: r["rows"][0].update(over_limit=1.01), "1.01 times the queries allowed"),
        ("transformer", lambda r: r["rows"][0].update(refused=1), "1 of 5 refused"),
        ("any_network", lambda r: r["rows"][0].update(error=2e-9), "error 2e-09 > 1e-09"),
        ("any_network", lambda r: r["rows"][0].update(queries_per_score=10.5), "10.5 queries per score"),
        ("any_network", lambda r: r["rows"][0].update(bounded=False), "a bound is below the error"),
        ("any_network", lambda r: r["random"]["outcomes"].update(wrong=1), "1 silently wrong"),
        ("multi_head", lambda r: r["synthetic"][0].update(found=3), "synthetic: "),
        ("multi_head", lambda r: r["median_ratio"].update({"32,4,8": 1.23}), "1.230 queries per parameter > 1.22"),
        ("multi_head", lambda r: r["float32"][0].update(W=2e-3), "float32, silently wrong"),
        ("multi_head", lambda r: [row.update(W=1.0) for row in r["crowded"]], "fewer than 24 heads"),
        ("multi_head", lambda r: r["alike"][0].update(equivalent=False), "alike: "),
        ("together", lambda r: r["hidden"][0].update(error=2e-8), "off by 2.0e-08"),
        ("together", lambda r: r["float32"].update(error=2e-3), "float32: off by 2.0e-03"),
        ("together", lambda r: r["crowded"][0].update(recovered=0), "0 of "),
        ("vector", lambda r: r["published"][0].update(queries=2501), "2501 queries > 2500"),
        ("vector", lambda r: r["one_head"][0].update(W=2e-9), "error 2e-09 > 1e-09"),
        ("network", lambda r: r["rows"][0].update(error=2e-9), "error 2.0e-09 > 1e-09"),
        ("network", lambda r: r["rows"][0].update(queries=16_001), "16,001 queries > 16,000"),
        ("network", lambda r: r["rows"][0].update(refused=1), "1 of 5 refused"),
        ("whole_blocks", lambda r: r["rows"][0]["runs"][0].update(network=2e-6), "network 2.0e-06 > 1e-06"),
        ("network", lambda r: r["wrong"]["dropout left on"][0].update(error=None), "wrong network accepted: dropout"),
    ],
)
def test_a_promise_that_is_missed_gets_a_sentence(name, spoil, sentence):
    result = load(name)
    spoil(result)
    assert any(sentence in said for said in MEASURED[name].broken(result))


def test_numbers_are_short():
    shown = {1.24e-15: "1.2e-15", 1e-9: "1e-9", 5e-4: "5e-4", 4096.0: "4.1e3", 1e12: "1e12"}
    assert {x: power(x) for x in shown} == shown
    assert [number(x) for x in (1.7e-4, 0.011, 2.2, 36.4, 4096.0)] == ["1.7e-4", "0.011", "2.2", "36.4", "4,096"]


def test_only_paragraphs_are_wrapped():
    kept = "# A title\n\n| a | b |\n| --- | --- |\n\n- one\n- two\n\n```python\na = 1\n\nb = 2\n```\n\n"
    assert wrapped(kept + "many\nwords\n") == kept + "many words\n"
    assert max(map(len, wrapped("word " * 100).splitlines())) <= 120
