"""A whole block: several heads behind a residual connection, normalisations and a network, from all its outputs.

`route` says which of two ways: `decoder` where a norm stands in front of the heads, and else `learn`. Of that one
`search` is the longer half; `geometry` is what single tokens see, `spaces` counts heads, `values` tells them apart,
`pairs` reads the sum of all value maps and `columns` every W; `assembly` makes the model. `network` is what stands
behind the heads, for whoever asks: `stream` asks there, `logits` in front of an unembedding, `polish` fits all of it.
"""

from .network import with_network
from .route import learn_block
