"""A whole block: several heads behind a residual connection, normalisations and a network, from all its outputs.

`learn` is the way, `search` its longer half; `geometry` is what single tokens see, `spaces` counts heads, `values`
tells them apart, `pairs` reads the sum of all value maps and `columns` every W; `assembly` makes the model.
"""

from .learn import learn_block
