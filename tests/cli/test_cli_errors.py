"""Every exit code, reached by a real box or a real mistake; every message says what to do."""

from __future__ import annotations

import re

import numpy as np
import pytest

import glasshead as gh
from glasshead._cli.outcome import known

BOX = ("recover", "--dim", "6")

# arguments, exit code, the error's class, part of the message
TABLE = [
    ((*BOX, "boxes:silent"), 3, "NotIdentifiable", "v = 0"),
    (
        (*BOX, "boxes:rounded", "--tolerance", "1e-3", "--accuracy", "1e-12", "--max-norm", "9"),
        3,
        "Acc",
        "about tolerance =",
    ),
    ((*BOX, "boxes:two", "--family", "attention"), 4, "TargetMismatch", "not a single attention head"),
    ((*BOX, "boxes:pooled", "--family", "attention"), 4, "TargetMismatch", "not a single attention head"),
    ((*BOX, "boxes:positional"), 4, "TargetMismatch", "not a single attention head"),
    ((*BOX, "boxes:rounded"), 4, "TargetMismatch", "head"),
    ((*BOX, "boxes:head", "--budget", "9"), 5, "BudgetExceeded", "a budget of 9"),
    ((*BOX, "boxes:biased", "--budget", "60"), 5, "BudgetExceeded", "60"),
    ((*BOX, "boxes:raises"), 6, "OracleError", "RuntimeError: out of cheese"),
    ((*BOX, "boxes:nan"), 6, "OracleError", "expected finite answers"),
    ((*BOX, "boxes:leaves"), 6, "OracleError", "sys.exit(9)"),
    (("recover", "boxes:head", "--dim", "5"), 6, "OracleError", "raised ValueError"),
    ((*BOX, "boxes:interrupted"), 130, "KeyboardInterrupt", "interrupted"),
    (("recover", "boxes:head"), 2, "ValueError", "expected --dim"),
    ((*BOX, "boxes:nothing"), 2, "ValueError", "there is no 'nothing' in the module boxes"),
    ((*BOX, "boxes:number"), 2, "TypeError", "expected a callable"),
    ((*BOX, "boxes.py:head"), 2, "ValueError", "write boxes:head"),
    ((*BOX, "nobox:head"), 2, "ValueError", "there is no module nobox"),
    ((*BOX, "needs:head"), 2, "ValueError", "needs the module a_module_nobody_has"),
    ((*BOX, "broken:head"), 2, "ValueError", "importing broken raised SyntaxError"),
    (("recover", "nowhere"), 2, "FileNotFoundError", "there is no nowhere here"),
    (("recover", "nowhere.safetensors"), 2, "FileNotFoundError", "no such model file: nowhere.safetensors"),
    (("recover", "junk.safetensors"), 2, "ValueError", "is not a safetensors file"),
    (("recover", "."), 2, "FileNotFoundError", "no recovery in ."),
    (("recover", "model.onnx"), 2, "FileNotFoundError", "model.onnx"),
    (("recover", "http://127.0.0.1:9/v2/models/m"), 6, "OracleError", "got no connection"),
    (("recover", "http://127.0.0.1:9/m"), 2, "ValueError", "/v2/models/NAME"),
    (("recover", "target.safetensors", "--place", "0"), 2, "ValueError", "expected no --place"),
    (("recover", "boxes:one", "--place", "3"), 2, "ValueError", "to be -1, the last, or 0, the first"),
    (("recover", "boxes:one", "--norm", "batch"), 2, "ValueError", "layer:EPS or rms:EPS, got 'batch'"),
    (("recover", "boxes:one", "--dtype", "int8"), 2, "ValueError", "got 'int8'"),
    (("recover", "target.safetensors", "--run", "."), 2, "FileExistsError", "holds other files and no journal"),
    (("recover", "target.safetensors", "--dim", "5"), 2, "ValueError", "which the box itself says"),
    (("recover", "target.safetensors", "--answers", "sign", "--rtol", "1"), 2, "ValueError", "no --rtol with"),
    (("recover", "target.safetensors", "--flips", "0.1"), 2, "ValueError", "no --flips with"),
    (("recover", "target.safetensors", "--answers", "maybe"), 2, "ValueError", "got 'maybe'"),
    (("recover", "target.safetensors", "--family", "nonsense"), 2, "ValueError", "nonsense"),
    (("recover", "target.safetensors", "--tolerance", "-1"), 2, "ValueError", "expected tolerance"),
    (("recover", "target.safetensors", "--run", "file"), 2, "NotADirectoryError", "file, which is a file"),
    (("recover", "target.safetensors", "--budgte", "5"), 2, "NoSuchOption", "--budgte"),
    (("recover",), 2, "MissingParameter", "TARGET"),
    (("recovr",), 2, "", "No such command 'recovr'"),
    (("new", "attention", "--dim", "0"), 2, "BadParameter", "--dim"),
    (
        ("new", "attention", "--dim", "4", "--rank", "5", "-o", "x.safetensors"),
        2,
        "ValueError",
        "expected a rank from 1 to dim = 4",
    ),
    (("new", "attention", "--dim", "10000000", "-o", "x.safetensors"), 2, "MemoryError", "not enough memory"),
    (("new", "attention", "-o", "target.safetensors"), 2, "FileExistsError", "--force"),
    (("new", "attention", "-o", "target"), 2, "ValueError", "ends in .safetensors"),
    (("new", "attention", "-o", "no/such.safetensors"), 2, "FileNotFoundError", "expected an existing folder"),
    (("new", "multi-head"), 2, "ValueError", "expected --heads for multi-head"),
    (("new", "attention", "--width", "3"), 2, "ValueError", "expected no --width for attention"),
    (("new", "hydra"), 2, "ValueError", "is no family"),
    (("plan",), 2, "MissingParameter", "--dim"),
    (("plan", "--dim", "8", "--rank", "9"), 2, "ValueError", "expected a rank from 1 to dim = 8"),
    (("plan", "--dim", "8", "--answers", "maybe"), 2, "ValueError", "got 'maybe'"),
    (("compare", "target.safetensors"), 2, "MissingParameter", "B"),
    (("compare", "target.safetensors", "nowhere"), 2, "FileNotFoundError", "no such model file: nowhere"),
    (("compare", "target.safetensors", "target.safetensors", "--tol", "nan"), 2, "ValueError", "expected --tol"),
    (("demo", "--folder", "file"), 2, "NotADirectoryError", "file, which is a file"),
]
IDS = [" ".join(arguments) for arguments, *_ in TABLE]


@pytest.mark.parametrize(("arguments", "code", "kind", "message"), TABLE, ids=IDS)
def test_errors_are_told(cli, arguments, code, kind, message):
    result = cli(*arguments)
    assert (result.code, result.out) == (code, "")
    assert message in result.words
    assert "Traceback" not in result.err


@pytest.mark.parametrize(("arguments", "code", "kind", "message"), TABLE, ids=IDS)
def test_errors_as_json(cli, arguments, code, kind, message):
    result = cli(*arguments, "--json")
    assert (result.code, result.err) == (code, "")
    assert result.json["error"].startswith(kind)
    assert message in result.json["message"]


def test_evidence_is_shown(cli):
    result = cli(*BOX, "boxes:positional")
    evidence = cli(*BOX, "boxes:positional", "--json").json["evidence"]
    assert {len(token) for token in evidence["query"]} == {6}
    for shown in (evidence["law"], evidence["got"], f"{evidence['query'][0][0]:.4f}", "dimension 6"):
        assert shown in result.words


@pytest.mark.parametrize(("missing", "words"), [(None, "nothing"), (100, "v, bias"), (1, "all of it, but unchecked")])
def test_a_spent_budget_says_what_is_known(cli, missing, words):
    box = ("recover", "--dim", "16", "boxes:wide")
    queries = cli(*box, "--json").json["queries"]
    budget = 9 if missing is None else queries - missing
    result = cli(*box, "--budget", str(budget))
    assert result.code == 5
    assert f"known so far {words}" in result.words
    enough = result.err.split("--budget ")[1].split()[0]
    assert cli(*BOX, "boxes:biased", "--budget", enough).code == 0


def test_half_of_W_is_counted():
    parts = {"v": np.ones(6), "bias": 0.0, "b": np.eye(6)[:4], "W_b": np.ones((4, 6))}
    error = gh.BudgetExceeded("spent", budget=1, needed=1, known=parts)
    assert known(error) == "v, bias, W in 4 of 6 directions"


def test_options_are_named_as_they_are_typed(cli):
    assert "give --max-norm" in cli(*BOX, "boxes:nan").words
    assert "then promise --tolerance 0.0" in cli(*BOX, "boxes:rounded").words


def test_a_failing_box_is_located(cli):
    words = cli(*BOX, "boxes:raises").words
    assert re.search(r'raised in boxes.py, line \d+: def raises\(X\): raise RuntimeError\("out of cheese"\)', words)


def test_our_own_bugs_are_not_hidden(cli, monkeypatch):
    def bug(*args, **keywords):
        raise ZeroDivisionError

    monkeypatch.setattr("glasshead._plan.planned", bug)
    with pytest.raises(ZeroDivisionError):
        cli("plan", "--dim", "4")


def test_a_method_that_does_not_converge_has_a_code_of_its_own(cli, monkeypatch):
    def stuck(*args, **keywords):
        raise gh.NotConverged("no W explains these answers")

    monkeypatch.setattr(gh, "recover", stuck, raising=False)
    result = cli("recover", "target.safetensors")
    assert (result.code, result.words) == (7, "Not converged: no W explains these answers")
