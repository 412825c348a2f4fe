"""RWKV-7's time mixing as a layer.

Paper: RWKV-7 "Goose" with Expressive Dynamic State Evolution, Peng et al., arXiv 2503.14456.

    x_r, x_w, x_k, x_v, x_a, x_g = x_t + (x_{t-1} - x_t) * mix
    w = -exp(-1/2) sigmoid(w_0 + tanh(x_w W_1) W_2),   alpha = sigmoid(a_0 + x_a A_1 A_2),   kappa = unit(k * k_k)
    y = W_o ((norm(rwkv7(r, w, k (1 + (alpha - 1) k_a), v, -kappa, kappa alpha)) + (r . k . r_k) v) * sigmoid(x_g G_1) G_2)

The residual that later layers take of the first layer's values is left out: a layer here knows no other.
"""

import math
from itertools import pairwise
from typing import final

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.algebra import Form
from transect.mixers.layers.base import Inside, Mixed, Past, SequenceLayer, unit
from transect.mixers.layers.packing import Packing
from transect.mixers.rwkv7 import rwkv7


@final
class RWKV7(SequenceLayer):
    """RWKV-7's time mixing, ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads; they divide hidden_size.
        low_rank: the width through which decays, strengths and gates are made of the input.
        norm_eps: epsilon of the output norm of each head.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide.

    Examples:
        >>> import torch
        >>> layer = RWKV7(hidden_size=16, num_heads=2)
        >>> layer(torch.ones(1, 3, 16)).shape
        torch.Size([1, 3, 16])
    """

    def __init__(self, *, hidden_size: int, num_heads: int, low_rank: int = 32, norm_eps: float = 1e-5, layer_idx: int = 0) -> None:
        super().__init__(hidden_size=hidden_size, layer_idx=layer_idx)
        if num_heads < 1 or hidden_size % num_heads or low_rank < 1:
            raise InputError(
                f"expected num_heads that divide hidden_size and a low_rank of at least 1, got {num_heads}, {hidden_size} and {low_rank}."
            )
        self.num_heads = num_heads
        self.mixes = nn.Parameter(torch.rand(6, hidden_size))
        self.r_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(hidden_size, hidden_size, bias=False) for _ in range(4))
        self.w_down, self.a_down, self.g_down = (nn.Linear(hidden_size, low_rank, bias=False) for _ in range(3))
        self.w_up, self.a_up = (nn.Linear(low_rank, hidden_size) for _ in range(2))
        self.g_up = nn.Linear(low_rank, hidden_size, bias=False)
        self.k_k, self.k_a = nn.Parameter(torch.full((hidden_size,), 0.85)), nn.Parameter(torch.ones(hidden_size))
        self.r_k = nn.Parameter(torch.full((num_heads, hidden_size // num_heads), 0.1))
        self.norm_weight, self.norm_bias = nn.Parameter(torch.ones(hidden_size)), nn.Parameter(torch.zeros(hidden_size))
        self.norm_eps = norm_eps

    def mix(self, x: torch.Tensor, *, past: Past, packing: Packing, form: Form) -> Mixed:
        """Shift, project, mix with the op, normalise head by head, and gate."""
        before, last = shifted(x, past.parts.get("last"), packing.bounds)
        at_r, at_w, at_k, at_v, at_a, at_g = (torch.lerp(x, before, mix) for mix in self.mixes)
        heads = (self.num_heads, -1)
        r, k, v = self.r_proj(at_r), self.k_proj(at_k), self.v_proj(at_v).unflatten(2, heads)
        w = -math.exp(-0.5) * self.w_up(self.w_down(at_w).tanh()).sigmoid()
        alpha = self.a_up(self.a_down(at_a)).sigmoid()
        kappa = unit((k * self.k_k).unflatten(2, heads))
        k = (k * (1 + (alpha - 1) * self.k_a)).unflatten(2, heads)
        r = r.unflatten(2, heads)
        given = {"r": r, "w": w.unflatten(2, heads), "k": k, "v": v, "a": -kappa, "b": kappa * alpha.unflatten(2, heads)}
        start = past.parts.get("state")
        o, state = rwkv7(**given, initial_state=start, output_final_state=True, cu_seqlens=packing.bounds, form=form)
        if state is None:
            raise TypeError("the final state was asked for")
        flat = functional.group_norm(o.flatten(0, 1).flatten(1), self.num_heads, self.norm_weight, self.norm_bias, self.norm_eps)
        y = flat.reshape(x.shape) + ((r * k * self.r_k).sum(-1, keepdim=True) * v).flatten(2)
        y = self.o_proj(y * self.g_up(self.g_down(at_g).sigmoid()))
        inside = Inside(inputs=given, o=o, initial_state=start, final_state=state, cu_seqlens=packing.bounds, op=rwkv7)
        return Mixed(y=y, parts={"state": state, "last": last}, inside=inside)


def shifted(x: torch.Tensor, last: torch.Tensor | None, bounds: tuple[int, ...] | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The token before each of ``x [B, T, D]``, 0 before the first, and the last of each sequence ``[N, D]`` for the next call.

    Args:
        x: tokens.
        last: what the call before gave back, or None.
        bounds: where sequences packed into a batch of 1 begin, and T.

    Examples:
        >>> before, last = shifted(torch.tensor([[[1.0], [2.0]]]), None, None)
        >>> before.flatten().tolist(), last.flatten().tolist()
        ([0.0, 1.0], [2.0])
    """
    if bounds is None:
        last = x.new_zeros(len(x), x.shape[2]) if last is None else last.to(x.dtype)
        whole = torch.cat([last[:, None], x], 1)
        return whole[:, :-1], whole[:, -1]
    last = x.new_zeros(len(bounds) - 1, x.shape[2]) if last is None else last.to(x.dtype)
    rows = [torch.cat([last[row : row + 1], x[0, start:end]]) for row, (start, end) in enumerate(pairwise(bounds))]
    return torch.cat([row[:-1] for row in rows])[None], torch.stack([row[-1] for row in rows])
