"""Is a box what it claims to be? Laws before the expensive queries, fresh answers after them.

`laws` is the one table of laws, with those of heads whose values were read; `family_laws` has those of sums, of heads
with a network behind them, and of yes and no. `held_out` draws, asks and judges fresh sequences; `heads`, `outputs`,
`signs` and `front` add what their families need. `noise` tells noise that nobody promised from a box of another kind,
and `opening` keeps the first answers of all.
A check takes `(oracle, learned, rng)` and hands back a `HeldOut`; a law that is broken raises `TargetMismatch`.
"""

from .family_laws import check_front_laws as check_front_laws
from .family_laws import check_last_token as check_last_token
from .family_laws import check_sign_laws as check_sign_laws
from .family_laws import check_sum_laws as check_sum_laws
from .family_laws import read_largest_change as read_largest_change
from .front import check_held_out_front as check_held_out_front
from .front import check_held_out_front_signs as check_held_out_front_signs
from .front import check_ordinary_tokens as check_ordinary_tokens
from .heads import check_heads_everywhere as check_heads_everywhere
from .heads import check_held_out_heads as check_held_out_heads
from .held_out import QUERIES as QUERIES
from .held_out import check_held_out as check_held_out
from .held_out import check_held_out_vector as check_held_out_vector
from .laws import MIXTURE_KEYS as MIXTURE_KEYS
from .laws import check_head_laws as check_head_laws
from .laws import check_layer_laws as check_layer_laws
from .laws import check_mixture as check_mixture
from .laws import mix_third_key as mix_third_key
from .noise import Noise as Noise
from .noise import Unpromised as Unpromised
from .noise import find_promise as find_promise
from .noise import read_noise as read_noise
from .noise import refuse_noise as refuse_noise
from .outputs import check_held_out_outputs as check_held_out_outputs
from .signs import SIGN_QUERIES as SIGN_QUERIES
from .signs import check_held_out_signs as check_held_out_signs
