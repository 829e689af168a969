"""The command line: one file per command, and what commands share.

`app` has the commands and the way out, `options` what several of them take, TARGET included, `screen` what is printed
with, `outcome` what is said in the end, `showing` what the demo shows, `phase` an experiment.
"""

from .app import main
