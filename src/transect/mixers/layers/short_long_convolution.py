"""CHELA: a short and a long convolution find what queries, keys and the gate see, and linear attention in tiles mixes the values.

Paper: Short-Long Convolutions Help Hardware-Efficient Linear Attention to Focus on Long Sequences, Liu et al., arXiv 2406.08128.

    z = long(silu(short(x))),   u = silu(W_u z)
    q = a_q * u + m_q,   k = a_k * u + m_k,   v = silu(W_v x)
    o_t = scale * sum_{s <= t} (q_t^T k_s) v_s,   y = W_o (norm(o) * silu(W_g z))

The long convolution's kernel is a sum of damped oscillations for each channel, from fast to slow,

    K_j = d [j = 0] + Re sum_i c_i b_i a_i^j,   |a_i| < 1,   b_i = sqrt(1 - |a_i|^2)

as long as the text, smooth without a regulariser, and with a state of fixed size, since it is a diagonal state space. That form was chosen here; so were
one projection for queries and keys with a scale and an offset for each (as in Mega), the output gate made from z, and one kernel for each of the two
convolutions, as the paper's re-parameterisation merges branches of several kernels into one that computes the same.
"""

import math
from typing import final

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.algebra import Form
from transect.mixers.diagonal_convolution import diagonal_convolution, kernel
from transect.mixers.layers.base import Inside, Mixed, Past, SequenceLayer
from transect.mixers.layers.packing import Packing
from transect.mixers.layers.short_convolution import ShortConvolution
from transect.mixers.linear_attention import linear_attention


@final
class LongConvolution(nn.Module):
    """A causal depthwise convolution over all tokens so far, whose kernel is a sum of damped oscillations.

    Args:
        channels: the width of its input.
        state_size: oscillations in each channel's kernel; at first they fade to 1 / e within 1 to 1000 tokens.

    Raises:
        InputError: a state_size below 1.

    Examples:
        >>> convolution = LongConvolution(channels=2, state_size=3)
        >>> y, state = convolution(torch.ones(1, 5, 2))
        >>> y.shape, state.shape
        (torch.Size([1, 5, 2]), torch.Size([1, 6, 2]))
    """

    def __init__(self, *, channels: int, state_size: int = 8) -> None:
        super().__init__()
        if state_size < 1:
            raise InputError(f"expected a state_size of at least 1, got {state_size}.")
        self.log_rate = nn.Parameter(-torch.linspace(0, math.log(1000), state_size).repeat(channels, 1))
        self.angle = nn.Parameter(torch.rand(channels, state_size) * self.log_rate.detach().exp())  # slow ones turn slowly
        self.C = nn.Parameter(torch.randn(channels, state_size, 2) * state_size**-0.5)
        self.D = nn.Parameter(torch.ones(channels))

    def forward(
        self, x: torch.Tensor, *, state: torch.Tensor | None = None, bounds: tuple[int, ...] | None = None, form: Form = "auto"
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs ``[B, T, D]``, and the state ``[N, D * state_size, 2]`` from which the next call goes on.

        Args:
            x: ``[B, T, D]``.
            state: what the call before gave back, or None.
            bounds: where sequences packed into a batch of 1 begin, and T.
            form: "auto" and "chunk" go by tiles; the others are those of `diagonal_ssm`, of which "naive" is the sum over all tokens so far.
        """
        log_a, taps = self._modes()
        wide = x.to(taps.real.dtype)
        y, last = diagonal_convolution(
            wide, log_a, taps, initial_state=None if state is None else torch.view_as_complex(state), bounds=bounds, form=form
        )
        return (y + self.D.to(wide.dtype) * wide).to(x.dtype), torch.view_as_real(last)

    def kernel(self, tokens: int) -> torch.Tensor:
        """Its first taps ``[tokens, D]``; the first belongs to the token itself.

        Examples:
            >>> LongConvolution(channels=2).kernel(5).shape
            torch.Size([5, 2])
        """
        found = kernel(*self._modes(), tokens)
        return torch.cat([found[:1] + self.D.to(found.dtype), found[1:]])

    def _modes(self) -> tuple[torch.Tensor, torch.Tensor]:
        """``log a`` and ``c b``, ``[D, state_size]``, complex in 32 bits at least; b makes every oscillation of about the size of its input."""
        dtype = torch.promote_types(self.C.dtype, torch.float32)
        rate = self.log_rate.to(dtype).exp()
        b = (-torch.expm1(-2 * rate)).sqrt()
        return torch.complex(-rate, self.angle.to(dtype)), torch.view_as_complex(self.C.to(dtype)) * b


@final
class ShortLongConvolution(SequenceLayer):
    """CHELA: linear attention whose queries, keys and gate have come through a short and a long convolution.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        conv_size: tokens that the short convolution sees, 2 or more.
        state_size: oscillations in each channel's kernel of the long convolution.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide.

    Examples:
        >>> layer = ShortLongConvolution(hidden_size=16, num_heads=2)
        >>> layer(torch.ones(1, 3, 16)).shape
        torch.Size([1, 3, 16])
    """

    alias = "chela"

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_k_dim: int | None = None,
        head_v_dim: int | None = None,
        conv_size: int = 4,
        state_size: int = 8,
        norm_eps: float = 1e-5,
        layer_idx: int = 0,
    ) -> None:
        super().__init__(hidden_size=hidden_size, layer_idx=layer_idx)
        if num_heads < 1 or (head_k_dim is None and hidden_size % num_heads):
            raise InputError(f"expected num_heads that divide hidden_size, or a head_k_dim, got {num_heads} and {hidden_size}.")
        if conv_size < 2:
            raise InputError(f"expected a conv_size of 2 or more, got {conv_size}.")
        width = hidden_size // num_heads if head_k_dim is None else head_k_dim
        depth = width if head_v_dim is None else head_v_dim
        if width < 1 or depth < 1:
            raise InputError(f"expected head_k_dim and head_v_dim of at least 1, got {width} and {depth}.")
        self.num_heads = num_heads
        self.short = ShortConvolution(channels=hidden_size, conv_size=conv_size)
        self.long = LongConvolution(channels=hidden_size, state_size=state_size)
        self.u_proj = nn.Linear(hidden_size, num_heads * width, bias=False)
        self.scales = nn.Parameter(torch.ones(2, num_heads, width))
        self.offsets = nn.Parameter(torch.zeros(2, num_heads, width))
        self.v_proj = nn.Linear(hidden_size, num_heads * depth, bias=False)
        self.g_proj = nn.Linear(hidden_size, num_heads * depth, bias=False)
        self.norm = nn.RMSNorm(depth, eps=norm_eps)
        self.o_proj = nn.Linear(num_heads * depth, hidden_size, bias=False)

    def mix(self, x: torch.Tensor, *, past: Past, packing: Packing, form: Form) -> Mixed:
        """Convolve twice, attend, gate, and project back."""
        bounds = packing.bounds
        near, conv = self.short(x, last=past.parts.get("conv"), bounds=bounds)
        z, long = self.long(near, state=past.parts.get("long"), bounds=bounds, form=form)
        u = functional.silu(self.u_proj(z)).unflatten(2, (self.num_heads, -1))
        q, k = (u * scale + offset for scale, offset in zip(self.scales, self.offsets, strict=True))
        v = functional.silu(self.v_proj(x)).unflatten(2, (self.num_heads, -1))
        start = past.parts.get("state")
        o, state = linear_attention(q, k, v, initial_state=start, output_final_state=True, cu_seqlens=bounds, form=form)
        if state is None:
            raise TypeError("the final state was asked for")
        inside = Inside(
            inputs={"q": q, "k": k, "v": v}, o=o, initial_state=start, final_state=state, cu_seqlens=bounds, op=linear_attention
        )
        y = self.norm(o).flatten(2) * functional.silu(self.g_proj(z))
        return Mixed(y=self.o_proj(y), parts={"conv": conv, "long": long, "state": state}, inside=inside)
