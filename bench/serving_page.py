"""docs/serving.md from what was measured of the server: watching, fuzzing and load."""

from __future__ import annotations

from typing import Any

from glasshead._serve.settings import MAX_BATCH, MAX_BYTES, MAX_SECONDS, MAX_TOKENS
from glasshead._serve.watch import NOTICED, SHORT

from .sensing.table import markdown
from .stored import load, number, wrapped
from .watch import DECOYS, hides
from .watch_others import DIMS as OTHER_DIMS

TEXT = """# Serving a model

The numbers are put in by `make tables` from `bench/results/watch.json`, `load.json` and `fuzz.json`, which `make bench`
and `make fuzz` measure.

`glasshead serve` puts a model behind an endpoint of the Open Inference Protocol (KServe V2), to attack it, or to see
what an attack looks like from the other side. It needs the extra: `pip install 'glasshead[serve]'`.

```
glasshead new attention --dim 64 -o target.safetensors
glasshead serve target.safetensors --decimals 6 --watch
glasshead recover http://127.0.0.1:8000/v2/models/target --tolerance 5e-7
```

## What a server lets its clients do

| option | what it does |
|---|---|
| `--answers sign` | answers yes and no instead of numbers |
| `--decimals`, `--noise`, `--max-norm` | `gh.defences.rounded`, `noisy` and `clipped` around the model |
| `--rate` | requests per second and client: more get 429, with Retry-After |
| `--quota` | sequences per client in all: more get 403 |
| `--max-batch` | sequences in a request, {batch} by default: more get 413 |
| `--max-tokens` | tokens in a sequence, {most_tokens} by default: more get 413 |
| `--max-bytes` | size of a request, {bytes} MiB by default: more get 413 |
| `--max-seconds` | for a request to arrive, {max_seconds} by default: one that takes longer gets 408 |
| `--watch` | warns in the log of who asks as a recovery does |
| `--log FILE` | where the log goes, one JSON object per line; stderr by default |

Where the environment's GLASSHEAD_TOKEN names a token, or several with commas in between, nobody else is answered, and
every token is a client; without one, every address is. A server listens to this machine only unless `--host` says
otherwise, and warns where that is done without a token. Neither tokens nor inputs nor the addresses that were tried are
in the log. `/docs` is the OpenAPI page.

A request that is not as the protocol has it gets a status from 400 to 499 and a sentence. Tried: {requests} requests
that are nearly right, {schemathesis} of them made by schemathesis from the OpenAPI page of the server, {official} from
the official one of the protocol (mended: its paths have a `$` before each brace, and none without a version), {binary}
with numbers in binary; and {files} files that nearly are models: {wrong} answers of 500 and more, crashes or errors
without a reason; the server's memory went from {before} to {after} MB.

{clients} clients at once for {seconds} s, half of them with JSON and half in binary, {sequences} sequences of {tokens}
tokens with d = {dim} in each request, server and clients on one machine of {cpus} cores; memory after {settled} s and
at the end:

{loads}

## Watching

A recovery asks short sequences that stand in a relation to each other: a token moved a little, scaled or turned around,
tokens at right angles, tokens beside others a thousand times as long. Embeddings of words do none of that. With
`--watch` the server counts such sequences for each client, and warns once that there are a dozen in excess of 1% of the
others. After how many queries that is, at the latest of {seeds} models each; and what share of decoys, sentences that
ask nothing, hides it: the smallest of those tried at which it was not noticed within 1% of all queries, decoys
included.

{attacks}

Of {honest} clients that send words ({real} of them with the embeddings of all-MiniLM-L6-v2, the others with made ones;
sentences of 1 to 64 tokens, keywords, repeats, padding; {told} sequences) {noticed} were noticed; the highest score was
{highest} of {limit}.

The thresholds were chosen on recoveries and clients such as these. On others, with {others} models each:

{other_attacks}

and of {other_clients} clients that send no sentences ({kinds}; {other_dims} numbers to a token, in float64, float32 and
float16) {other_noticed} were noticed.

So decoys hide a recovery only from {times} times its queries on. Sequences of more than {short} different tokens are
not looked at: the watch tells an owner who uses the known methods, and is no defence against somebody who has read
how it works; limits on answers are (`gh.defences`, `--quota`). It is wrong about a client that sends one-hot vectors,
or the same vectors scaled in several ways, or single measurements that change by less than a thousandth from one to the
next.
"""


def decoys(row: dict[str, Any], kind: str, seeds: int) -> str:
    share = hides(row, kind, seeds)
    return "none tried" if share is None else f"{share:.1%}".replace(".0%", "%")


def page() -> str:
    watch, fuzz, under = load("watch"), load("fuzz"), load("load")
    seeds, honest = watch["seeds"], watch["honest"]
    head = "recovery of", "d", "queries", "noticed after", "hidden by sentences", "by short ones"
    attacks = [
        (
            row["attack"],
            row["dim"],
            f"{row['queries']:,}",
            row["noticed"],
            *(decoys(row, kind, seeds) for kind in DECOYS),
        )
        for row in watch["rows"]
    ]
    others = watch["others"]
    others_rows = [(row["attack"], row["dim"], f"{row['queries']:,}", row["noticed"]) for row in others["rows"]]
    shares = [share for row in watch["rows"] for kind in DECOYS if (share := hides(row, kind, seeds)) is not None]
    loads = [
        (
            f"`{row['server']}`",
            f"{row['requests']:,}",
            row["errors"],
            number(row["median_ms"]),
            number(row["99%_ms"]),
            f"{row['settled_MB']:.1f}, {row['end_MB']:.1f}",
        )
        for row in under["rows"]
    ]
    parts = [fuzz["own"], fuzz["schemathesis"], fuzz["official"]]
    return wrapped(
        TEXT.format(
            requests=f"{sum(part['requests'] for part in parts):,}",
            official=f"{fuzz['official']['requests']:,}",
            binary=f"{fuzz['own']['binary']:,}",
            schemathesis=f"{fuzz['schemathesis']['requests']:,}",
            files=f"{fuzz['files']['files']:,}",
            wrong=sum(len(part["wrong"]) for part in (fuzz["files"], *parts)),
            before=f"{fuzz['memory']['before']:.0f}",
            after=f"{fuzz['memory']['after']:.0f}",
            batch=f"{MAX_BATCH:,}",
            most_tokens=f"{MAX_TOKENS:,}",
            bytes=MAX_BYTES // 2**20,
            max_seconds=f"{MAX_SECONDS:g}",
            clients=under["clients"],
            seconds=under["seconds_each"],
            sequences=under["sequences"],
            tokens=under["tokens"],
            dim=under["dim"],
            cpus=under["machine"]["cpus"],
            settled=under["settled_after"],
            loads=markdown(("server", "requests", "errors", "median, ms", "99%, ms", "memory, MB"), loads),
            seeds=seeds,
            attacks=markdown(head, attacks),
            honest=f"{honest['clients']:,}",
            real=honest["real"],
            told=f"{honest['sequences']:,}",
            noticed=honest["noticed"],
            highest=number(honest["highest"]),
            limit=f"{NOTICED:g}",
            others=len(others["seeds"]),
            other_attacks=markdown(head[:4], others_rows),
            other_clients=f"{sum(kind['clients'] for kind in others['honest']):,}",
            kinds=", ".join(f"{kind['clients']} {kind['kind']}" for kind in others["honest"]),
            other_dims=f"{min(OTHER_DIMS)} to {max(OTHER_DIMS)}",
            other_noticed=sum(kind["noticed"] for kind in others["honest"]),
            short=SHORT,
            times=f"{1 / (1 - min(shares)):.0f}" if shares else "any number of",
        )
    )
