from .attention import Attention as Attention
