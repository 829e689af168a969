"""Several heads from scalar answers, one by one: saturate, then isolate.

The method is in docs/multi-head.md, "How it works". For up to d - 2 heads with independent values: one query per free
parameter and some hundred more per head. `learn` is the whole way; `meters` finds the scale of every head and reads v
again where that pays; `projection` reads a head's matrix along the keys that only this head answers to, `steering`
along the values of the other heads.
"""

from .learn import learn_multi_head
