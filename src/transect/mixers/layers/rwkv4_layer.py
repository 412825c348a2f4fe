"""RWKV-4's time mixing as a layer.

Paper: RWKV: Reinventing RNNs for the Transformer Era, Peng et al., arXiv 2305.13048.

    x_r, x_k, x_v = mix * x_t + (1 - mix) * x_{t-1}
    y = W_o (sigmoid(W_r x_r) * wkv(W_k x_k, W_v x_v; g = -exp(time_decay), u = bonus))
"""

import math
from functools import partial
from typing import final

import torch
from torch import nn

from transect.errors import InputError
from transect.mixers.algebra import Form
from transect.mixers.layers.base import Inside, Mixed, Past, SequenceLayer
from transect.mixers.layers.packing import Packing
from transect.mixers.layers.rwkv7_layer import shifted
from transect.mixers.wkv import wkv


@final
class RWKV4(SequenceLayer):
    """RWKV-4's time mixing, ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Its channels are heads of one value, so that the effective matrix is one for each channel.

    Args:
        hidden_size: the width of inputs and outputs.
        inner_size: channels of keys and values; None for hidden_size.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes below 1.

    Examples:
        >>> layer = RWKV4(hidden_size=16)
        >>> layer(torch.ones(1, 3, 16)).shape
        torch.Size([1, 3, 16])
    """

    alias = "rwkv4"

    def __init__(self, *, hidden_size: int, inner_size: int | None = None, layer_idx: int = 0) -> None:
        super().__init__(hidden_size=hidden_size, layer_idx=layer_idx)
        inner = hidden_size if inner_size is None else inner_size
        if inner < 1:
            raise InputError(f"expected an inner_size of at least 1, got {inner}.")
        self.mixes = nn.Parameter((torch.arange(hidden_size) / hidden_size).repeat(3, 1))
        self.r_proj, self.k_proj, self.v_proj = (nn.Linear(hidden_size, inner, bias=False) for _ in range(3))
        self.o_proj = nn.Linear(inner, hidden_size, bias=False)
        places = torch.arange(inner)
        self.time_decay = nn.Parameter(-5 + 8 * (places / max(inner - 1, 1)) ** 0.7)
        self.bonus = nn.Parameter(math.log(0.3) + 0.5 * ((places + 1) % 3 - 1))

    def mix(self, x: torch.Tensor, *, past: Past, packing: Packing, form: Form) -> Mixed:
        """Shift, project, take the mean with the op, and gate."""
        before, last = shifted(x, past.parts.get("last"), packing.bounds)
        at_r, at_k, at_v = (torch.lerp(before, x, share) for share in self.mixes)
        given = {"log_weights": self.k_proj(at_k), "v": self.v_proj(at_v)[..., None]}
        wide = torch.promote_types(self.time_decay.dtype, torch.float32)  # 16 bits would overflow in the exponential
        op = partial(wkv, g_gamma=-self.time_decay.to(wide).exp(), bonus=self.bonus)
        start = past.parts.get("state")
        o, state = op(**given, initial_state=start, output_final_state=True, cu_seqlens=packing.bounds, form=form)
        if state is None:
            raise TypeError("the final state was asked for")
        y = self.o_proj(self.r_proj(at_r).sigmoid() * o[..., 0])
        inside = Inside(inputs=given, o=o, initial_state=start, final_state=state, cu_seqlens=packing.bounds, op=op)
        return Mixed(y=y, parts={"state": state, "last": last}, inside=inside)
