"""A block with a norm in front of its heads, as in GPT-2 and LLaMA: seen through long last tokens it is heads alone.

`learn` is the way; `spaces` counts heads and says roughly which outputs are whose, `rows` says it exactly, `heads`
makes weights of it, `scores` reads what each head makes of tokens, in few dimensions (`key_spaces`), and `turning`
finds rotary positions in that. `wide` is for heads that are wider than the model together.
"""

from .learn import learn_decoder
