"""Scaled dot-product attention in the layout of `llama`: tokens first, heads beside them (letters as there)."""

import torch
import torch.nn.functional as F
from torch import Tensor


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """q [n, H, D] over k, v [m, K, D] -> [n, H * D]; causal when there is no mask [n, m]."""
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))  # [1, heads, n or m, D]
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True)
    return mixed[0].transpose(0, 1).flatten(1)


def causal_mask(n: int, past: int, device: torch.device | None = None) -> Tensor:
    """[n, past + n] bool: token i sees the past, and tokens up to itself."""
    return torch.ones(n, past + n, dtype=torch.bool, device=device).tril(past)
