"""What the README claims, measured: `python -m bench.run`, then `python -m bench.readme`."""
