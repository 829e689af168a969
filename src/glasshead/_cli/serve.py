"""`glasshead serve`: a model behind an endpoint."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from .options import Answers, Seed, examples, models
from .screen import console

EXAMPLES = examples(
    "glasshead serve target.safetensors",
    "glasshead serve target.safetensors --port 9000 --decimals 4 --max-norm 100 --watch",
    "glasshead serve target.safetensors --answers sign --name head --rate 50 --quota 100000 --log requests.jsonl",
    "glasshead serve runs/first --noise 1e-6 --seed 3",
)


def command(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="A .safetensors file of gh.save, or the folder of a run.",
            autocompletion=models,
        ),
    ],
    host: Annotated[str, typer.Option(help="Where to listen; by default only this machine is heard.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any that is free.")] = 8000,
    name: Annotated[str | None, typer.Option(help="Of the model in its address; that of the file by default.")] = None,
    answers: Answers = "value",
    decimals: Annotated[int | None, typer.Option(help="Round answers to so many decimals.")] = None,
    noise: Annotated[
        float | None, typer.Option(help="Noise on answers, up to this; the same question gets the same answer.")
    ] = None,
    max_norm: Annotated[float | None, typer.Option(help="Scale longer tokens back to this length.")] = None,
    max_batch: Annotated[int | None, typer.Option(min=1, help="The most sequences in a request; more get 413.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="The most tokens in a sequence; more get 413.")] = None,
    max_bytes: Annotated[int | None, typer.Option(min=1, help="The largest request; a larger one gets 413.")] = None,
    max_seconds: Annotated[
        float | None, typer.Option(help="For a request to arrive; one that takes longer gets 408.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Requests per second and client; more get 429.")] = None,
    quota: Annotated[int | None, typer.Option(min=1, help="Sequences per client in all; more get 403.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Warn in the log of who asks as a recovery does.")] = False,
    log: Annotated[Path | None, typer.Option(help="A file for the log, instead of stderr.")] = None,
    seed: Seed = 0,
) -> None:
    """Serve a model to whoever speaks the Open Inference Protocol (KServe V2).

    The environment's GLASSHEAD_TOKEN is the bearer token that clients must send, or several with commas in between,
    one for each client. A client is a token, or without tokens an address.

    Requests have limits without options too: docs/serving.md says which.

    The log has one JSON object per line for each request, with neither tokens nor inputs in it. Ctrl-C stops.
    """
    from .._boxes import TOKEN, is_loopback
    from .._serve import Settings, serve, tokens_of_environment
    from .target import load_model

    limits = {"max_batch": max_batch, "max_tokens": max_tokens, "max_bytes": max_bytes, "max_seconds": max_seconds}
    settings = Settings(
        name=Path(model).resolve().stem if name is None else name,
        host=host,
        port=port,
        answers=answers,
        decimals=decimals,
        noise=noise,
        max_norm=max_norm,
        rate=rate,
        quota=quota,
        watch=watch,
        seed=seed,
        tokens=tokens_of_environment(),
        **{name: value for name, value in limits.items() if value is not None},
    )
    served = load_model(model)
    if not is_loopback(host) and not settings.tokens:
        words = f"whoever reaches {host} may ask: set {TOKEN} to a token that clients must send"
        console(stderr=True).print(f"[yellow]warning[/] {words}", soft_wrap=True)

    def listening(address: str) -> None:
        print(f"serving {served} at {address}", flush=True)

    with nullcontext(sys.stderr) if log is None else log.open("a") as stream:
        serve(served, settings, stream, listening)
    print("stopped", flush=True)
