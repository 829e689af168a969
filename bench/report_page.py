"""docs/report.md from what was measured of the HTML page."""

from __future__ import annotations

from .sensing.table import markdown
from .stored import load, wrapped

TEXT = """# The report

One HTML file that shows a recovery or an audit to people who were not there. It can be mailed, archived and printed; it
loads nothing, sends nothing and evaluates nothing, which a policy inside it makes browsers enforce. The numbers below
are put in by `make tables` from `bench/results/report.json`, which `make bench` measures.

## How to make one

```
glasshead new attention --dim 16 --rank 3 -o target.safetensors
glasshead recover target.safetensors --run runs/first
glasshead report runs/first --open
```

`glasshead recover --run` leaves `report.html` in its folder by itself, and so does `glasshead demo`; `glasshead report`
makes it again, from a folder of `glasshead recover` or of `glasshead audit`, and asks the box nothing. In Python:

```python
import glasshead as gh

target = gh.Attention.random(16, rank=3, seed=1)
found = gh.recover(gh.ValueOracle(target))
gh.report(found, "report.html", truth=target)  # without truth= where there is none to compare with
found.plot("W.svg", truth=target)  # a figure for a paper; needs the extra: pip install 'glasshead[report]'
```

## How to read one

The page says so itself at its end. In short, for a recovery:

- **The number on top** counts right digits by the best evidence there is: the true model where the target was one of
  our files that has not changed since, else the certified bound, else answers to fresh sequences.
- **The weights**: W recovered, true, and their difference on a scale of its own. Point at an entry to read it in all
  maps at once; click, then scroll to zoom, drag to move; or use the arrow keys, `+`, `-` and `0`. With several heads
  each has a picture to choose it by. W is drawn to the seven digits of a float32; where all heads take too much room,
  the entry of largest size stands for its neighbours, and the page says so.
- **Singular values** left of the dashed line are the rank; **the attention pattern** shows what the recovered head
  looks at in three made-up sequences.
- **Certified intervals** are how far off W and v can be, next to how far off they are where that is known; **fresh
  answers** lie on the diagonal where the recovered model predicts the box; **queries over time** has the information
  limit as a dashed line.

For an audit: how many settings give the model away, what each defence costs honest users against how wrong it leaves
a thief's copy, and every setting in a table that can be sorted and filtered. Every curve has its numbers in a table
below it. The page holds its numbers as JSON, and shows these: pointing at a number shows all its digits.

## What it is made of

{rows}

Medians of {opened} openings from disk in Chromium {chromium}, until everything is drawn. W travels as two float32
factors where these are shorter than the matrix, and is multiplied and drawn in the page.

Curves are drawn by a small script of its own rather than by Observable Plot, which would be several times as large as
all the rest of a small page, for four plain kinds of marks. It has neither zoom nor a way to read points by keys, so
most of the script would still be needed.

`make browser` installs Debian's Chromium for the tests, which drive it through Playwright; `make test` leaves these
out, and says so, where there is none.
"""


def page() -> str:
    found = load("report")
    rows = [[row["page"], f"{row['bytes'] / 1e6:.2f} MB", f"{row['seconds']:.1f} s"] for row in found["rows"]]
    limits = [["limit", f"{found['limits']['bytes'] / 1e6:.0f} MB", f"{found['limits']['seconds']:.0f} s"]]
    table = markdown(["page", "size", "until it can be used"], rows + limits)
    return wrapped(TEXT.format(rows=table, opened=found["opened"], chromium=found["chromium"]))
