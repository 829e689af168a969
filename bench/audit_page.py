"""docs/audit.md from what was measured of the audit: the default grid on a head, and what logits give away."""

from __future__ import annotations

from glasshead._audit.settings import MITIGATIONS

from .sensing.table import markdown
from .stored import load, number, wrapped

TEXT = """# What does my endpoint give away, and what would stop it?

The numbers are put in by `make tables` from `bench/results/audit.json`, which `make bench` measures.

```
glasshead audit target.safetensors
glasshead audit http://127.0.0.1:8000/v2/models/head --honest prompts.npy --price-per-query 0.001
```

or, in Python:

```python
from functools import partial

import glasshead as gh

found = gh.audit(
    gh.Attention.random(6, seed=1),
    defences={{"two decimals": partial(gh.defences.rounded, decimals=2), "half precision": gh.defences.half}},
    budget=5000,
)
print(found.verdict("two decimals"))
print(found.recommendation)
```

An audit is for models and endpoints of your own. It puts the target behind one defence after the other, attacks it,
and says of each what the attacker gets, what it took, and what honest users lose. In the words of MITRE ATLAS the
attack is AML.T0024.002, extracting a model through its inference API; the defences are mitigations:

{mitigations}

## The threat

The attacker sends vectors of their choice and sees values, rounded values, noisy ones, or signs; they know the
defence, but not the parameters. Endpoints that take words instead of vectors, or show only the best few answers, give
away less than what is measured here. Two attackers try every setting, each with the whole budget:

1. One who **reads**: `gh.recover`, told what the defence promises; told nothing; with shorter tokens where the box
   overflows. What it returns carries a bound; what it refuses to stand by counts as a copy all the same, if it answers
   well enough.
2. One who **fits**, where reading gives no copy below the threshold: least squares on answers to random sequences, to
   six times as many as there are parameters at first, then to four times as many, as far as the budget goes. It proves
   nothing, but two-digit answers are still equations. Without it the audit would praise defences that stop only
   theorems. It knows single heads with one number per answer: of another box no defence of answers is recommended.

The error of a copy is the root mean square of what its answers to honest sequences are off by, over the spread of the
true answers; where it cannot answer without the box, the relative error of its W. From signs the length of v cannot
be known, and is not held against the copy. A defence *held* where the error stays at the threshold or above it. That
is no proof that nobody can get further: it says that these two did not.

What honest users lose is the distance of the true answers from the straight line that fits the defended ones best,
over the same spread: 0 where nothing is lost, 1 where nothing is left. Without `honest=` (`--honest FILE`) the
sequences are Gaussian, of 1 to 64 tokens; give your own if yours are not.

## A head of dimension {dim} and rank {rank}

{parameters} free parameters; threshold {threshold}, at most {budget} queries for each attacker in each setting,
{queries} in all. The run was killed (`kill -9`) when {finished} settings were finished, and gone on with by the same
command: {repeated} of them were tried again.

{rows}

{recommendation}

The table shows three things. Rounding and noise alone hardly matter where tokens may be long: the answers
grow with the tokens and the error does not. Once tokens are clipped to what honest users send, reading loses its
digits, but fitting goes on, at the price of more queries. A limit on queries below the number of parameters is the
one defence with a proof, though of less than one may wish: an answer of one number fixes one parameter at most, so
that not all can be known exactly; a rough copy may take fewer.

## What logits give away

Where answers are many numbers, the audit first asks ordinary sequences, none of them chosen, and looks at the rank of
the answers: a language model's logits are a linear map of its hidden state, so they lie in a space as wide as that
state (Carlini et al. 2024; Finlayson et al. 2024). From {leak_queries} answers of a model with {outputs} logits and a
hidden state of {width} numbers:

{leaks}

## Going on

Every finished setting is a file in the folder of the audit (`runs/audit-NAME-k`, or `--run FOLDER`), with the
attacker's copy beside it: the same command with `--run FOLDER` goes on with those that are missing. `--workers N`
tries so many at a time, `--ray ADDRESS --replicas N` does so on a cluster. `glasshead report FOLDER` makes its page.
"""


def page() -> str:
    found = load("audit")
    rows = [
        (row["name"], "nothing" if row["distortion"] == 0 else number(row["distortion"]), row["verdict"])
        for row in found["rows"]
    ]
    leaks = [(row["answers"], row["width"] or "does not show") for row in found["leak"]["rows"]]
    return wrapped(
        TEXT.format(
            mitigations=markdown(("mitigation", "what it is here"), MITIGATIONS.items()),
            dim=found["dim"],
            rank=found["rank"],
            parameters=f"{found['parameters']:,}",
            threshold=f"{found['threshold']:g}",
            budget=f"{found['budget']:,}",
            queries=f"{found['queries']:,}",
            finished=found["finished_before_the_kill"],
            repeated=found["repeated"],
            rows=markdown(("defence", "honest users lose", "what an attacker gets"), rows),
            recommendation=found["recommendation"],
            leak_queries=found["leak"]["queries"],
            outputs=found["leak"]["outputs"],
            width=found["leak"]["width"],
            leaks=markdown(("answers", "width seen"), leaks),
        )
    )
