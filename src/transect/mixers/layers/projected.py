"""Layers of queries, keys and values: projections, a short convolution, one op, and an output norm with a gate.

    q, k, v = silu(conv(W x));   o, S = op(q, k, v, g, beta);   y = W_o (norm(o) * silu(W_g x))

Layers differ in `inputs`: how they make what their op takes.
"""

from abc import ABC, abstractmethod

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.algebra import Form
from transect.mixers.layers.base import Inside, Mixed, Op, Past, SequenceLayer, rotate
from transect.mixers.layers.packing import Packing
from transect.mixers.layers.short_convolution import ShortConvolution


class ProjectedLayer(SequenceLayer, ABC):
    """A layer of queries, keys and values: ``[B, T, hidden_size]`` to the same.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        keys_per_token: keys and values that a token writes.
        conv_size: tokens that the short convolution of q, k and v sees; None for no convolution.
        use_gate: whether the output is gated by the input.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.
        num_k_heads: heads of queries and keys, which values share in groups; None for num_heads.
        conv_bias: whether the short convolution has a bias.
        rotary_base: base of the rotary positions of queries and keys; None for none.

    Raises:
        InputError: sizes that are not positive or do not divide.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_k_dim: int | None,
        head_v_dim: int | None,
        keys_per_token: int,
        conv_size: int | None,
        use_gate: bool,
        norm_eps: float,
        layer_idx: int,
        num_k_heads: int | None = None,
        conv_bias: bool = False,
        rotary_base: float | None = None,
    ) -> None:
        super().__init__(hidden_size=hidden_size, layer_idx=layer_idx)
        if num_heads < 1 or (head_k_dim is None and hidden_size % num_heads):
            raise InputError(f"expected num_heads that divide hidden_size, or a head_k_dim, got {num_heads} and {hidden_size}.")
        if keys_per_token < 1 or (conv_size is not None and conv_size < 2):
            raise InputError(f"expected at least one key per token and a conv_size of 2 or more, got {keys_per_token} and {conv_size}.")
        self.num_heads, self.keys_per_token = num_heads, keys_per_token
        self.num_k_heads = num_heads if num_k_heads is None else num_k_heads
        if self.num_k_heads < 1 or num_heads % self.num_k_heads:
            raise InputError(f"expected heads of keys that divide num_heads = {num_heads}, got {self.num_k_heads}.")
        self.head_k_dim = head_k_dim or hidden_size // num_heads
        self.head_v_dim = head_v_dim or self.head_k_dim
        if rotary_base is not None and (self.head_k_dim % 2 or rotary_base <= 1):
            raise InputError(f"expected an even head_k_dim and a rotary_base above 1, got {self.head_k_dim} and {rotary_base}.")
        self.rotary_base = rotary_base
        keys, values = self.num_k_heads * self.head_k_dim, num_heads * self.head_v_dim
        self.widths = [keys, keys * keys_per_token, values * keys_per_token]
        self.qkv_proj = nn.Linear(hidden_size, sum(self.widths), bias=False)
        self.conv = None if conv_size is None else ShortConvolution(channels=sum(self.widths), conv_size=conv_size, bias=conv_bias)
        self.g_proj = nn.Linear(hidden_size, values, bias=False) if use_gate else None
        self.norm = nn.RMSNorm(self.head_v_dim, eps=norm_eps)
        self.o_proj = nn.Linear(values, hidden_size, bias=False)

    @property
    @abstractmethod
    def op(self) -> Op:
        """The op of `transect.mixers` that mixes the tokens."""

    @abstractmethod
    def inputs(self, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, torch.Tensor]:
        """What the op takes, by name, from the layer's input ``[B, T, hidden_size]`` and q, k, v ``[B, T, H, D]`` after the convolution."""

    def finish(self, x: torch.Tensor, o: torch.Tensor, v: torch.Tensor) -> torch.Tensor:  # noqa: ARG002 - v is for layers that skip
        """What the output projection takes ``[B, T, H, V]``, from the op's outputs o: its norm, gated by the layer's input x."""
        y = self.norm(o)
        return y if self.g_proj is None else y * functional.silu(self.g_proj(x)).view_as(y)

    def project(
        self, x: torch.Tensor, *, past: Past, packing: Packing
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        """Queries, keys and values ``[B, T, H, D]`` after the convolution and the turn, and what the convolution goes on from."""
        streams, parts = self.qkv_proj(x), {}
        if self.conv is not None:
            streams, parts["conv"] = self.conv(streams, last=past.parts.get("conv"), bounds=packing.bounds)
        q, k, v = streams.split(self.widths, -1)
        writes = x.shape[1] * self.keys_per_token
        q = q.unflatten(2, (self.num_k_heads, self.head_k_dim))
        k = k.reshape(len(x), writes, self.num_k_heads, self.head_k_dim)
        v = v.reshape(len(x), writes, self.num_heads, self.head_v_dim)
        if self.rotary_base is not None:
            positions = packing.positions(past.seen)
            q = rotate(q, positions, base=self.rotary_base)
            k = rotate(k, positions.repeat_interleave(self.keys_per_token, 1), base=self.rotary_base)
        return q, k, v, parts

    def mix(self, x: torch.Tensor, *, past: Past, packing: Packing, form: Form) -> Mixed:
        """Project, convolve, turn, mix with the op, and project back."""
        q, k, v, parts = self.project(x, past=past, packing=packing)
        given = self.inputs(x, q, k, v)
        start = past.parts.get("state")
        o, state = self.op(**given, initial_state=start, output_final_state=True, cu_seqlens=packing.bounds, form=form)
        if state is None:
            raise TypeError("the final state was asked for")
        parts["state"] = state
        inside = Inside(inputs=given, o=o, initial_state=start, final_state=state, cu_seqlens=packing.bounds, op=self.op)
        return Mixed(y=self.o_proj(self.finish(x, o, v).flatten(2)), parts=parts, inside=inside)
