"""Every answer on disk before it is used: a run that was stopped, whatever stopped it, goes on where it was.

`file`: what is stored. `recording`: how a box is asked through it. Running the same recovery again asks the same
questions, since the seed decides them; it gets the stored answers and goes on from there.
"""

from .recording import journalled
