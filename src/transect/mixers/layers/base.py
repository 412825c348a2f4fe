"""What sequence layers share: projections, a short convolution, one op, an output norm with a gate, and a cache.

    q, k, v = silu(conv(W x));   o, S = op(q, k, v, g, beta);   y = W_o (norm(o) * silu(W_g x))

Layers differ in `inputs`: how they make what their op takes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.algebra import Form
from transect.mixers.layers.cache import LayerState, MixerCache
from transect.mixers.layers.packing import Packing
from transect.mixers.layers.short_convolution import ShortConvolution

Op = Callable[..., tuple[torch.Tensor, torch.Tensor | None]]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Inside:
    """What happened inside a layer; packed into a batch of 1 where the layer was given a mask or `cu_seqlens`.

    Args:
        inputs: what the op took, by name: q, k, v, g, beta.
        o: the op's outputs, ``[B, T, H, V]``, before norm and gate.
        initial_state: ``[N, H, K, V]``, or None for zeros.
        final_state: ``[N, H, K, V]``.
        cu_seqlens: where packed sequences begin, and T; or None.
        op: the op.
    """

    inputs: Mapping[str, torch.Tensor]
    o: torch.Tensor
    initial_state: torch.Tensor | None
    final_state: torch.Tensor
    cu_seqlens: tuple[int, ...] | None
    op: Op

    def states(self) -> torch.Tensor:
        """``[T, B, H, K, V]``: the state after each token.

        Raises:
            InputError: packed sequences; run each alone to see its states.
        """
        if self.cu_seqlens is not None:
            raise InputError("expected one sequence for each row, got packed sequences. Run each alone to see its states.")
        state, found = self.initial_state, []
        tokens = self.o.shape[1]
        for t in range(tokens):
            step = {name: x[:, t * (x.shape[1] // tokens) : (t + 1) * (x.shape[1] // tokens)] for name, x in self.inputs.items()}
            _, state = self.op(**step, initial_state=state, output_final_state=True, form="recurrent")
            if state is None:
                raise TypeError("the final state was asked for")
            found.append(state)
        return torch.stack(found) if found else self.final_state[None][:0]

    def effective_matrix(self) -> torch.Tensor:
        """``[B, H, T, T * r]``: how much of each value each output holds, the initial state aside; read off the op itself.

        The values are replaced by unit vectors, so this takes O(T^2) memory per head.
        """
        batch, writes, heads, _ = self.inputs["v"].shape
        units = torch.eye(writes, dtype=self.o.dtype, device=self.o.device)[None, :, None].expand(batch, writes, heads, writes)
        out, _ = self.op(**{**self.inputs, "v": units}, cu_seqlens=self.cu_seqlens)
        return out.transpose(1, 2)


class SequenceLayer(nn.Module, ABC):
    """A linear-time sequence layer: ``[B, T, hidden_size]`` to the same.

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
        super().__init__()
        if hidden_size < 1 or num_heads < 1 or (head_k_dim is None and hidden_size % num_heads):
            raise InputError(f"expected num_heads that divide hidden_size, or a head_k_dim, got {num_heads} and {hidden_size}.")
        if keys_per_token < 1 or (conv_size is not None and conv_size < 2):
            raise InputError(f"expected at least one key per token and a conv_size of 2 or more, got {keys_per_token} and {conv_size}.")
        self.hidden_size, self.num_heads, self.layer_idx, self.keys_per_token = hidden_size, num_heads, layer_idx, keys_per_token
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

    def forward(
        self,
        x: torch.Tensor,
        *,
        cache: MixerCache | None = None,
        attention_mask: torch.Tensor | None = None,
        cu_seqlens: torch.Tensor | Sequence[int] | None = None,
        form: Form = "auto",
        return_inside: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, Inside]:
        """Mix the tokens of each sequence, causally.

        Args:
            x: ``[B, T, hidden_size]``.
            cache: goes on where the call before stopped, and is brought up to date.
            attention_mask: ``[B, T]``, 0 for padding, on either side or inside; the output there is 0.
            cu_seqlens: where sequences packed into a batch of 1 begin, and T.
            form: as in the ops; "naive" is the definition.
            return_inside: whether to give an `Inside` back, too.

        Raises:
            InputError: an input of another width, or a mask or bounds that do not fit.
            MismatchError: a cache of another layer or batch.
        """
        if x.ndim != 3 or x.shape[2] != self.hidden_size:
            raise InputError(f"expected x of shape [B, T, {self.hidden_size}], got {list(x.shape)}.")
        packing = Packing.of(x, attention_mask, cu_seqlens)
        kind = type(self).__name__
        held = None if cache is None else cache.get(self.layer_idx, kind=kind, sequences=packing.sequences)
        inner, last = packing.x, None
        streams = self.qkv_proj(inner)
        if self.conv is not None:
            streams, last = self.conv(streams, last=None if held is None else held.conv, bounds=packing.bounds)
        q, k, v = streams.split(self.widths, -1)
        writes = inner.shape[1] * self.keys_per_token
        q = q.unflatten(2, (self.num_k_heads, self.head_k_dim))
        k = k.reshape(len(inner), writes, self.num_k_heads, self.head_k_dim)
        v = v.reshape(len(inner), writes, self.num_heads, self.head_v_dim)
        seen = torch.zeros(packing.sequences, dtype=torch.long, device=x.device) if held is None else held.seen
        if self.rotary_base is not None:
            positions = packing.positions(seen)
            q = rotate(q, positions, base=self.rotary_base)
            k = rotate(k, positions.repeat_interleave(self.keys_per_token, 1), base=self.rotary_base)
        given = self.inputs(inner, q, k, v)
        start = None if held is None else held.state
        o, state = self.op(**given, initial_state=start, output_final_state=True, cu_seqlens=packing.bounds, form=form)
        if state is None:
            raise TypeError("the final state was asked for")
        if cache is not None:
            cache.put(self.layer_idx, LayerState(kind=kind, state=state, conv=last, seen=seen + packing.lengths()))
        y = packing.unpack(self.o_proj(self.finish(inner, o, v).flatten(2)))
        if not return_inside:
            return y
        return y, Inside(inputs=given, o=o, initial_state=start, final_state=state, cu_seqlens=packing.bounds, op=self.op)


def rotate(x: torch.Tensor, positions: torch.Tensor, *, base: float) -> torch.Tensor:
    """Rotary positions: channels j and j + D / 2 of ``x [B, T, H, D]`` turned by ``positions [B, T] * base ** (-2 j / D)``.

    Examples:
        >>> rotate(torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([[0]]), base=10000.0).flatten()
        tensor([1., 0.])
    """
    half = x.shape[-1] // 2
    rates = base ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
    angles = positions[..., None].double() * rates  # thousands of turns need the digits
    cos, sin = (part[:, :, None].to(torch.promote_types(x.dtype, torch.float32)) for part in (angles.cos(), angles.sin()))
    one, two = x[..., :half], x[..., half:]
    return torch.cat([one * cos - two * sin, two * cos + one * sin], -1).to(x.dtype)


def unit(x: torch.Tensor) -> torch.Tensor:
    """``x / sqrt(|x|^2 + 1e-6)``, in 32 bits at least: of norm at most 1, and 0 for 0."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + 1e-6)).to(x.dtype)


def steps(num_heads: int, channels: int = 1) -> torch.Tensor:
    """Biases whose softplus is spread evenly, in logarithm, between 0.001 and 0.1, as Mamba starts: ``[num_heads * channels]``."""
    wanted = torch.exp(torch.empty(num_heads * channels).uniform_(-6.907755, -2.302585))
    return wanted + torch.log(-torch.expm1(-wanted))
