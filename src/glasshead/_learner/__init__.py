from .any_network import learn_any_network as learn_any_network
from .attention import learn_attention as learn_attention
from .sign_attention import learn_sign_attention as learn_sign_attention
from .straight import explained as explained
from .transformer import learn_transformer as learn_transformer
from .unpromised import learn_values as learn_values
