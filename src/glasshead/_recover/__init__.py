"""`gh.recover`, from the call to what is handed back.

`recover` tries a family, or what a few answers suggest: learn, check, judge; `refusal` says why nothing is handed back,
and `surroundings` are what stands behind heads that were found, and in front of them.
What stands between a recovery and the box is in `_oracles/boundary.py`.
"""

from .recover import recover as recover
