"""TODO."""

from .app import main
