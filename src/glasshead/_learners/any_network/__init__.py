"""One head in front of a network that stays a black box.

`learn` is the way in, with or without a normalisation before the head (`normalisation`); `values` and `signs` find
where to measure from, for the two kinds of answers, and read key bias and W there.
"""

from .learn import learn_any_network
