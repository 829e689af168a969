"""Is a box what it claims to be? Laws before the expensive queries, fresh answers after them.

`laws` is the one table of laws, with those of heads whose values were read; `family_laws` has those of sums, of heads
with a network behind them, and of yes and no; `odds` that of one head's weights, at the pairs of tokens that `telling`
finds, `front_odds` the same behind a network, and `balance` behind yes and no. `held_out` draws, asks and judges fresh
sequences; `one_head`, `heads`, `signs` and `front` add what their families need, and `compared` is where all of them
end. `judge` decides last, for every family alike, from what is `answered` to `ordinary` sequences, and refuses what
knows too little; `bounds` has what these say of bounds. `noise` tells noise that nobody promised from a box of another
kind, `promise` finds what could be promised, and `cause` says what may be behind a refusal. A check takes
`(oracle, learned, rng)` and hands back a `HeldOut`; a broken law raises `TargetMismatch`.
"""

from .balance import BALANCE_QUERIES
from .cause import find_cause_of, find_rounded_tokens, find_unsteady
from .family_laws import (
    check_block_laws,
    check_front_laws,
    check_last_token,
    check_sign_laws,
    check_sum_laws,
    read_largest_change,
)
from .front import check_held_out_front, check_held_out_front_signs, check_ordinary_tokens
from .heads import check_heads_everywhere, check_held_out_heads, check_held_out_outputs
from .held_out import QUERIES, check_held_out_block, check_held_out_vector
from .judge import TOO_FEW_DIGITS, check_a_few, check_everywhere, check_longer
from .laws import check_head_laws, check_layer_laws
from .noise import Noise, Unpromised, check_unmeasured, read_noise
from .odds import ODDS_QUERIES
from .one_head import check_held_out
from .ordinary import JUDGE_QUERIES
from .promise import find_promise
from .signs import SIGN_QUERIES, check_held_out_signs
