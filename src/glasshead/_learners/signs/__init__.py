"""TODO."""

from .learn import learn_sign_attention as learn_sign_attention
