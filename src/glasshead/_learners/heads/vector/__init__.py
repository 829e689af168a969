"""A layer of heads from answers of many numbers: a query reads many scores of all heads at once.

The method is in docs/multi-head.md, "How it works". `learn` is the whole way and the models it ends in; `spaces` tells
heads apart by the eigenvalues of a derivative; `scale` finds how long tokens have to be, and whether there is one head
only; `columns` reads `W_h x + key_bias_h` for last tokens x, the later ones inside the span of the first. A box that
this is not for, because it answers one number or its heads' outputs overlap, is answered with a `NeedsScalarRoute`,
which is a value and says why.
"""

from .learn import learn_vector, learn_vector_attention
from .spaces import NeedsScalarRoute
