"""TODO."""

from .app import main as main
