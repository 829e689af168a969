"""`gh.recover`, from the call to what is handed back.

`recover` has its arguments, checked before the first query; `attempt` tries a family, or what a few answers suggest:
learn, check, judge. What stands between a recovery and the box is in `_oracles/boundary.py`.
"""

from .recover import recover as recover
