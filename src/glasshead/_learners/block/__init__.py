"""A whole block: several heads behind a residual connection, normalisations and a network, from all its outputs.

`learn` is the way; `geometry` is what single tokens see, `spaces` counts heads, `values` tells them apart, `pairs` and
`columns` read the sum of all value maps and every W.
"""

from .learn import learn_block
