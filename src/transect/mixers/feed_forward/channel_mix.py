"""RWKV-4's channel mixing: a gated MLP of a squared ReLU that also reads the token before.

Paper: RWKV: Reinventing RNNs for the Transformer Era, Peng et al., arXiv 2305.13048.

    x_r, x_k = mix * x_t + (1 - mix) * x_{t-1}
    y = sigmoid(W_r x_r) * W_v relu(W_k x_k)^2

As it remembers a token, it is a sequence layer, with masks, packed sequences and a place in the cache, though it stands where feed-forward
layers do.
"""

from typing import final

import torch
from torch import nn

from transect.errors import InputError
from transect.mixers.algebra import Form
from transect.mixers.layers.base import Inside, Mixed, Past, SequenceLayer
from transect.mixers.layers.packing import Packing
from transect.mixers.layers.rwkv7_layer import shifted


@final
class ChannelMix(SequenceLayer):
    """RWKV-4's channel mixing, ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        intermediate_size: the width in between; None for 4 hidden_size.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes below 1.

    Examples:
        >>> ChannelMix(hidden_size=4)(torch.ones(1, 3, 4)).shape
        torch.Size([1, 3, 4])
    """

    alias = "channel_mix"
    forms = ("auto", "naive")

    def __init__(self, *, hidden_size: int, intermediate_size: int | None = None, layer_idx: int = 0) -> None:
        super().__init__(hidden_size=hidden_size, layer_idx=layer_idx)
        inner = 4 * hidden_size if intermediate_size is None else intermediate_size
        if inner < 1:
            raise InputError(f"expected an intermediate_size of at least 1, got {inner}.")
        self.mixes = nn.Parameter((torch.arange(hidden_size) / hidden_size).repeat(2, 1))
        self.r_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden_size, bias=False)

    def mix(self, x: torch.Tensor, *, past: Past, packing: Packing, form: Form) -> Mixed:  # noqa: ARG002 - there is one form
        """Shift, and the MLP with its gate."""
        before, last = shifted(x, past.parts.get("last"), packing.bounds)
        at_r, at_k = (torch.lerp(before, x, share) for share in self.mixes)
        inner = self.up_proj(at_k).relu().square()
        y = self.r_proj(at_r).sigmoid() * self.down_proj(inner)
        inside = Inside(
            inputs={"v": inner[:, :, None]}, o=y[:, :, None], initial_state=None, final_state=None, cu_seqlens=packing.bounds, op=None
        )
        return Mixed(y=y, parts={"last": last}, inside=inside)
