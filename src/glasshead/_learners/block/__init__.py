"""A whole block: several heads behind a residual connection, normalisations and a network, from all its outputs.

`route` says which of two ways: `decoder` where a norm stands in front of the heads, and else `learn`. Of that one
`search` is the longer half; `geometry` is what single tokens see, `spaces` counts heads, `values` tells them apart,
`columns` reads every W, and `fresh` how far off it is; `assembly` makes the model. `network` is what stands behind the
heads, for whoever asks: `stream` asks there, `logits` in front of an unembedding, `post_norm` between two norms, the
second of which is `last_norm`; `whole_fit` fits all of it, by what `tangents` say of each change.
"""

from .network import read_whole_block
from .route import learn_block
