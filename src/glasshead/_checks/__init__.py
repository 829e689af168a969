"""TODO."""

from .front import held_out_front as held_out_front
from .front import held_out_front_signs as held_out_front_signs
from .front import holds_for_ordinary_tokens as holds_for_ordinary_tokens
from .heads import checked_heads as checked_heads
from .heads import held_out_heads as held_out_heads
from .held_out import QUERIES as QUERIES
from .held_out import check_vector as check_vector
from .held_out import held_out as held_out
from .laws import check_front_laws as check_front_laws
from .laws import check_laws as check_laws
from .laws import check_layer_laws as check_layer_laws
from .laws import check_sign_laws as check_sign_laws
from .laws import could_be_heads as could_be_heads
from .laws import largest_change as largest_change
from .laws import law_token as law_token
from .noise import Noise as Noise
from .noise import Unpromised as Unpromised
from .noise import explained as explained
from .noise import measure_noise as measure_noise
from .outputs import check_combined as check_combined
from .scores import MIXTURE_KEYS as MIXTURE_KEYS
from .scores import check_mixture as check_mixture
from .scores import mix as mix
from .scores import sees_last_token as sees_last_token
from .signs import SIGN_QUERIES as SIGN_QUERIES
from .signs import held_out_signs as held_out_signs
