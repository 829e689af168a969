"""The command line: one file per command. Whatever needs the library is imported when a command runs, not before."""

from .app import main as main
