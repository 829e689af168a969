"""Several heads from scalar answers, all at once: for heads that nothing isolates.

Parallel or dependent values, proportional scores, more heads than dimensions: where keys orthogonal to all other values
do not exist, all keys and values at one query token are solved for together, from the even part of the answers
(`pairs`). `even` finds lengths of tokens that show the heads; `plane` finds all heads that a plane of keys shows and
extends them to all directions; `jumps` is the other first guess, where heads are many; `columns` reads every W;
`orientation` tells k from -k; `learn` is the whole way.
"""

from .learn import learn_joint
