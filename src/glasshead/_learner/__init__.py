from .attention import learn_attention as learn_attention
