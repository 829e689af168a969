"""Pages of docs/ made from measured numbers or from the code itself: `python -m bench.pages` writes them."""

from __future__ import annotations

from collections.abc import Callable

from . import (
    adapters_page,
    any_network_page,
    audit_page,
    blocks_page,
    constants_page,
    decoder_page,
    encoder_page,
    interop_page,
    multi_head_page,
    network_page,
    noise_page,
    report_page,
    serving_page,
    transformer_page,
    tree,
    trust_page,
    your_model_page,
)
from .fresh import ROOT
from .sensing import table

PAGES: dict[str, Callable[[], str]] = {
    "low-rank.md": table.page,
    "noise.md": noise_page.page,
    "transformers.md": transformer_page.page,
    "networks.md": network_page.page,
    "any-network.md": any_network_page.page,
    "multi-head.md": multi_head_page.page,
    "hessian-route.md": blocks_page.page,
    "constants.md": constants_page.page,
    "trust.md": trust_page.page,
    "blocks.md": encoder_page.page,
    "decoders.md": decoder_page.page,
    "hugging-face.md": adapters_page.page,
    "your-model.md": your_model_page.page,
    "interop.md": interop_page.page,
    "serving.md": serving_page.page,
    "audit.md": audit_page.page,
    "report.md": report_page.page,
    "how-it-is-built.md": tree.page,
}


def main() -> None:
    for name, page in PAGES.items():
        (ROOT / "docs" / name).write_text(page())


if __name__ == "__main__":
    main()
