"""A fixed slice of the red team: the same boxes every time, of the classes where nothing may be wrong any more.

`COVERED` grows with the library: a class joins once its boxes pass, and never leaves. The rest is run by `make red`.
"""

import pytest

from .box import boxes
from .run import run, run_all

SEED, EACH = 8, 12
LIMIT = 60.0  # seconds of the processor for one box
COVERED = (
    "NaN and infinity",
    "shapes and types",
    "memory",
    "ends of the numbers",
    "constants and labels",
    "dropout left on",
    "answers gone wrong",
    "depends on the batch",
    "window or truncation",
    "query that is not linear",
    "keys that are not linear",
    "positions",
    "counting",
    "routed on the last token",
    "left by 1%",
    "left by 3%",
    "left by 10%",
    "drift",
    "noise nobody promised",
    "large output bias",
    "goes by the length",
    "tokens in coarse numbers",
    "tokens within limits",
    "tokens of the box's own",
)
MENDED = (  # of those that the judge once handed back: a second each
    "one-faint-head@float64/signs:988824892",
    "noisy-scores@float64/signs:999795101",
    "now-and-then@float64/loose-rtol:45144971",
    "one-faint-head@18-bits/rtol:12193052",
    "one-faint-head@18-bits/rtol:6008",
    "one-faint-head@18-bits/rtol:2018682",
    "one-faint-head@18-bits/rtol:368255896",
    "one-faint-head@18-bits/rtol:933028511",
    "one-faint-head@18-bits/rtol:1651926203",
    "one-faint-head@18-bits/none:76585118",
    "one-faint-head@float16/none:599918146",
    "case-one-in-ten-gone-wrong@float64/none:2033599035",
    "stepped@float64/rounded:212757513",
    "relative-noise@bfloat16-answers/none:1798543295",
    "rounded-unsaid@bfloat16-answers/none:1892134046",
    "torch-encoder-2@float64/norm:1059655829",
    "rounded-unsaid@float64/rounded:648099785",
    "shell@bfloat16-answers/rtol:1635718688",
    "shell-of-longest@float64/loose-rtol:2130789158",
    "shell-of-last@float32-answers/rtol:334955847",
    "shell-of-longest@11-digits/none:185271657",
    "shell-of-longest@float64/signs:311791606",
    "shell-of-last@bfloat16-answers/rtol:1039892867",
    "now-and-then@float32/none:1787657403",
    "nilpotent@float16/none:1306883631",
    "some-lengths@18-bits/none:644757041",
    "some-lengths@float16-answers/rtol:1492138097",
    "now-and-then@float64/signs:256681513",
)
STANDS = ("right", "refused", "accepted")


@pytest.mark.parametrize("group", COVERED)
def test_right_or_refused(group):
    records = run_all(boxes(EACH, SEED, group), workers=1, limit=LIMIT)
    failed = [f"{r['outcome']} {r['kind']}:{r['seed']} {r['why']}" for r in records if r["outcome"] not in STANDS]
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("case", MENDED)
def test_what_was_once_wrong_stays_mended(case):
    name, seed = case.rsplit(":", 1)
    record = run(name, int(seed), LIMIT)
    assert record["outcome"] in STANDS, record["why"]
