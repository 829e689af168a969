from .attention import learn_attention as learn_attention
from .sign_attention import learn_sign_attention as learn_sign_attention
