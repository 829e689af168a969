"""One head from yes and no.

`learn` is the method; `halfspace` finds the plane on which one-row answers change, which shows v; `key_bias` tells
whether there is a key bias, reads it, and bounds what could hide.
"""

from .learn import learn_sign_attention
