"""What sequence layers share: masks and packed sequences, a cache, and a look inside.

A layer says in `mix` how it mixes tokens that are all real, from what it remembers of those before.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final, get_args

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError, near_matches
from transect.mixers.algebra import Form
from transect.mixers.layers.cache import LayerState, MixerCache
from transect.mixers.layers.packing import Packing

Op = Callable[..., tuple[torch.Tensor, torch.Tensor | None]]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Inside:
    """What happened inside a layer; packed into a batch of 1 where the layer was given a mask or `cu_seqlens`.

    Args:
        inputs: what the op took, by name: q, k, v, g, beta and so on; v is ``[B, T * r, H, V]``.
        o: the op's outputs, ``[B, T, H, V]``, before norm and gate.
        initial_state: ``[N, H, ...]``, or None for an empty one.
        final_state: ``[N, H, ...]``, or None where the memory grows with the sequence.
        cu_seqlens: where packed sequences begin, and T; or None.
        op: the op, or None where values cannot be told from the rest (states that all channels share).
    """

    inputs: Mapping[str, torch.Tensor]
    o: torch.Tensor
    initial_state: torch.Tensor | None
    final_state: torch.Tensor | None
    cu_seqlens: tuple[int, ...] | None
    op: Op | None

    def states(self) -> torch.Tensor:
        """``[T, B, H, K, V]``: the state after each token.

        Raises:
            InputError: packed sequences, each of which must be run alone to see its states; or a memory that grows.
        """
        if self.final_state is None or self.op is None:
            raise InputError(
                "expected a layer whose op goes on from a state of fixed size, got one whose memory grows or that has no such op."
            )
        if self.cu_seqlens is not None:
            raise InputError("expected one sequence for each row, got packed sequences. Run each alone to see its states.")
        state, found = self.initial_state, []
        op, tokens = self.op, self.o.shape[1]
        for t in range(tokens):
            step = {name: x[:, t * (x.shape[1] // tokens) : (t + 1) * (x.shape[1] // tokens)] for name, x in self.inputs.items()}
            _, state = op(**step, initial_state=state, output_final_state=True, form="recurrent")
            if state is None:
                raise TypeError("the final state was asked for")
            found.append(state)
        return torch.stack(found) if found else self.final_state[None][:0]

    def effective_matrix(self) -> torch.Tensor:
        """``[B, H, T, T * r]``: how much of each value each output holds, the initial state aside; read off the op itself.

        The values are replaced by unit vectors, so this takes O(T^2) memory per head.

        Raises:
            InputError: a layer without heads of values, whose states all channels share.
        """
        if self.op is None:
            raise InputError("expected a layer with heads of values, got one whose states all channels share; it has no such matrix.")
        batch, writes, heads, _ = self.inputs["v"].shape
        units = torch.eye(writes, dtype=self.o.dtype, device=self.o.device)[None, :, None].expand(batch, writes, heads, writes)
        out, _ = self.op(**{**self.inputs, "v": units}, cu_seqlens=self.cu_seqlens)
        return out.transpose(1, 2)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Past:
    """What a layer remembers of the tokens before.

    Args:
        parts: as it left them in `Mixed.parts`, each ``[N, ...]``; empty where nothing came before.
        seen: ``[N]``, how many tokens each sequence had.
    """

    parts: Mapping[str, torch.Tensor]
    seen: torch.Tensor


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Mixed:
    """What a layer makes of its tokens.

    Args:
        y: ``[B, T, hidden_size]``.
        parts: what the next call goes on from, by name, each ``[N, ...]``.
        inside: for those who look.
    """

    y: torch.Tensor
    parts: Mapping[str, torch.Tensor]
    inside: Inside


class SequenceLayer(nn.Module, ABC):
    """A causal sequence layer: ``[B, T, hidden_size]`` to the same.

    Args:
        hidden_size: the width of inputs and outputs.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: a width below 1.
    """

    forms: tuple[Form, ...] = get_args(Form)
    """The forms that `forward` takes."""
    alias: str | None = None
    """A short name, beside that of the class, for configurations and the command line."""

    def __init__(self, *, hidden_size: int, layer_idx: int) -> None:
        super().__init__()
        if hidden_size < 1:
            raise InputError(f"expected a hidden_size of at least 1, got {hidden_size}.")
        self.hidden_size, self.layer_idx = hidden_size, layer_idx

    @abstractmethod
    def mix(self, x: torch.Tensor, *, past: Past, packing: Packing, form: Form) -> Mixed:
        """Mix tokens ``x [B, T, hidden_size]``, all of them real; `packing.bounds` says where packed sequences begin, and T, or is None."""

    @final
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
            form: one of `forms`; "naive" is the definition.
            return_inside: whether to give an `Inside` back, too.

        Raises:
            InputError: an input of another width, a mask or bounds that do not fit, or a form that the layer does not have.
            MismatchError: a cache of another layer or batch.
        """
        if x.ndim != 3 or x.shape[2] != self.hidden_size:
            raise InputError(f"expected x of shape [B, T, {self.hidden_size}], got {list(x.shape)}.")
        kind = type(self).__name__
        if form not in self.forms:
            raise InputError(f"expected a form of {kind}, got {form!r}; {near_matches(str(form), self.forms)}.")
        packing = Packing.of(x, attention_mask, cu_seqlens)
        held = None if cache is None else cache.get(self.layer_idx, kind=kind, sequences=packing.sequences)
        if held is None:
            past = Past(parts={}, seen=torch.zeros(packing.sequences, dtype=torch.long, device=x.device))
        else:
            past = Past(parts=held.parts, seen=held.seen)
        mixed = self.mix(packing.x, past=past, packing=packing, form=form)
        if cache is not None:
            cache.put(self.layer_idx, LayerState(kind=kind, parts=mixed.parts, seen=past.seen + packing.lengths()))
        y = packing.unpack(mixed.y)
        return (y, mixed.inside) if return_inside else y


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
    width = x.shape[-1]
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (functional.rms_norm(wide, (width,), eps=1e-6 / width) * width**-0.5).to(x.dtype)  # one call for what would be five


def steps(num_heads: int, channels: int = 1) -> torch.Tensor:
    """Biases whose softplus is spread evenly, in logarithm, between 0.001 and 0.1, as Mamba starts: ``[num_heads * channels]``."""
    wanted = torch.exp(torch.empty(num_heads * channels).uniform_(-6.907755, -2.302585))
    return wanted + torch.log(-torch.expm1(-wanted))
