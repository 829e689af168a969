"""Blocks with a norm in front of their heads."""
