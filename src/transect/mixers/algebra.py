"""One recurrence for every linear-time sequence layer, checked and brought into one shape.

    S_t = A_t S_{t-1} + B_t              state, ``[K, V]`` per head
    o_t = scale * q_t^T S_t              readout

    A_t = (I - beta_r k_r k_r^T) ... (I - beta_1 k_1 k_1^T) Diag(exp(g_t))      with beta: diagonal plus rank r
    A_t = Diag(exp(g_t))                                                        without

``g`` is nothing, one number per head, or one per key channel; ``B_t`` writes the values: each of the r keys of a token adds
``k (v - k^T S)^T beta`` (with beta, the delta rule) or ``k v^T`` (without) to the state as it stands. Layers differ only in how they
make q, k, v, g and beta. `transect.mixers.naive` runs these lines as they stand and is the definition of every op.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, final

import torch

from transect.errors import InputError

Form = Literal["auto", "chunk", "recurrent", "parallel", "naive"]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Recurrence:
    """A sequence problem of the algebra above, checked, with gates and states in the precision that it is computed in.

    Args:
        q: ``[B, T, H, K]``.
        k: ``[B, T * r, H, K]``.
        v: ``[B, T * r, H, V]``.
        g: log decay, ``[B, T, H, 1]`` (scalar), ``[B, T, H, K]`` (diagonal), or None.
        beta: writing strengths, ``[B, T * r, H]``, or None for additive writes.
        state: the state before the first token, ``[N, H, K, V]``; N is B, or the number of packed sequences.
        bounds: where the packed sequences begin, and T; None where each row of the batch is one sequence.
        scale: what the readout is multiplied by.
        rank: r, the keys per token.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    g: torch.Tensor | None
    beta: torch.Tensor | None
    state: torch.Tensor
    bounds: tuple[int, ...] | None
    scale: float
    rank: int = 1

    def sequences(self) -> list["Recurrence"]:
        """The packed sequences, each by itself; without packing the whole batch, as one."""
        if self.bounds is None:
            return [self]
        found = []
        for index, (start, end) in enumerate(pairwise(self.bounds)):
            token, write = slice(start, end), slice(start * self.rank, end * self.rank)
            found.append(
                replace(
                    self,
                    q=self.q[:, token],
                    k=self.k[:, write],
                    v=self.v[:, write],
                    g=None if self.g is None else self.g[:, token],
                    beta=None if self.beta is None else self.beta[:, write],
                    state=self.state[index : index + 1],
                    bounds=None,
                )
            )
        return found

    def one_key_a_token(self) -> "Recurrence":
        """The same problem with r times as many tokens of one key each; a token's output is that of its last key."""
        if self.rank == 1:
            return self
        batch, tokens, heads, width = self.q.shape
        q = torch.cat([self.q.new_zeros(batch, tokens, self.rank - 1, heads, width), self.q[:, :, None]], 2)
        g = self.g
        if g is not None:
            g = torch.cat([g[:, :, None], g.new_zeros(batch, tokens, self.rank - 1, *g.shape[2:])], 2).flatten(1, 2)
        bounds = None if self.bounds is None else tuple(self.rank * bound for bound in self.bounds)
        return replace(self, q=q.flatten(1, 2), g=g, bounds=bounds, rank=1)


def recurrence(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    g: torch.Tensor | None = None,
    beta: torch.Tensor | None = None,
    per_channel: bool = False,
    rank: int = 1,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
) -> Recurrence:
    """Check what an op was given and bring it into one shape: heads shared as asked, 32 bits at least.

    Args:
        q, k, v, g, beta, rank, scale: as in `Recurrence`, before heads are shared; g without its last axis unless `per_channel`.
        per_channel: whether g has one decay for each channel of the keys.
        initial_state: ``[N, H, K, V]``, or None for zeros.
        cu_seqlens: where the packed sequences begin, and T; the batch must be 1.

    Raises:
        InputError: shapes that do not belong together, gates above 0, beta outside [0, 2], or bounds that do not add up.
    """
    _check_tensors(q=q, k=k, v=v)
    batch, tokens, _, width = q.shape
    writes, heads = tokens * rank, v.shape[2]
    if k.shape != (batch, writes, *q.shape[2:]):
        raise InputError(
            f"expected k of shape {_shape(batch, writes, *q.shape[2:])} for q {_shape(*q.shape)}"
            + (f" and {rank} keys per token" if rank > 1 else "")
            + f", got {_shape(*k.shape)}."
        )
    if v.shape[:2] != (batch, writes):
        raise InputError(f"expected v of shape [{batch}, {writes}, H, V] for k {_shape(*k.shape)}, got {_shape(*v.shape)}.")
    if width == 0 or v.shape[3] == 0 or q.shape[2] == 0 or heads == 0 or heads % q.shape[2]:
        raise InputError(
            f"expected as many heads in v as in q and k, or a multiple, and no empty axis; got q {_shape(*q.shape)} and v {_shape(*v.shape)}."
        )
    if heads != q.shape[2]:
        q, k = (part.repeat_interleave(heads // part.shape[2], 2) for part in (q, k))
    dtype = torch.promote_types(torch.promote_types(torch.promote_types(q.dtype, k.dtype), v.dtype), torch.float32)
    bounds = checked_bounds(cu_seqlens, batch=batch, tokens=tokens)
    count = batch if bounds is None else len(bounds) - 1
    shape = (count, heads, width, v.shape[3])
    if initial_state is None:
        state = torch.zeros(shape, dtype=dtype, device=v.device)
    else:
        _check_float("initial_state", initial_state)
        if initial_state.shape != shape:
            raise InputError(
                f"expected initial_state of shape {_shape(*shape)} ([sequences, H, K, V]), got {_shape(*initial_state.shape)}."
                " Pass the final state of the same op and batch, or None."
            )
        state = initial_state.to(dtype)
    return Recurrence(
        q=q.to(dtype),
        k=k.to(dtype),
        v=v.to(dtype),
        g=None if g is None else _log_decay(g, (batch, tokens, heads, width), per_channel=per_channel).to(dtype),
        beta=None if beta is None else _strengths(beta, (batch, writes, heads)).to(dtype),
        state=state,
        bounds=bounds,
        scale=width**-0.5 if scale is None else float(scale),
        rank=rank,
    )


def checked_bounds(cu_seqlens: torch.Tensor | Sequence[int] | None, *, batch: int, tokens: int) -> tuple[int, ...] | None:
    """Where packed sequences begin, and T, as plain numbers; None where nothing is packed.

    Raises:
        InputError: no whole numbers, a batch that is not 1, or bounds that do not rise from 0 to T.

    Examples:
        >>> checked_bounds(torch.tensor([0, 2, 5]), batch=1, tokens=5)
        (0, 2, 5)
    """
    if cu_seqlens is None:
        return None
    if isinstance(cu_seqlens, torch.Tensor):
        if cu_seqlens.ndim != 1 or cu_seqlens.is_floating_point() or cu_seqlens.dtype == torch.bool:
            raise InputError(f"expected cu_seqlens as a vector of integers, got {cu_seqlens.dtype} {_shape(*cu_seqlens.shape)}.")
        cu_seqlens = cu_seqlens.tolist()
    bounds = tuple(int(bound) for bound in cu_seqlens)
    if any(bound != given for bound, given in zip(bounds, cu_seqlens, strict=True)):
        raise InputError(f"expected cu_seqlens of whole numbers, got {list(cu_seqlens)}.")
    if batch != 1:
        raise InputError(f"expected a batch of 1 with cu_seqlens (the sequences are packed along T), got a batch of {batch}.")
    falls = any(end < start for start, end in pairwise(bounds))
    if len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != tokens or falls:
        shown = f"{list(bounds[:6])}{'...' if len(bounds) > 6 else ''}"
        raise InputError(
            f"expected cu_seqlens that rise from 0 to T = {tokens}, got {shown} ending in {bounds[-1] if bounds else 'nothing'}."
        )
    return bounds


def _shape(*sizes: int) -> str:
    return "[" + ", ".join(map(str, sizes)) + "]"


def _check_float(name: str, value: torch.Tensor) -> None:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        got = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
        raise InputError(f"expected {name} as a tensor of floating-point numbers, got {got}.")


def _check_tensors(**parts: torch.Tensor) -> None:
    for name, value in parts.items():
        _check_float(name, value)
        if value.ndim != 4:
            raise InputError(f"expected {name} of shape [B, T, H, D] (tokens before heads), got {_shape(*value.shape)}.")


def _log_decay(g: torch.Tensor, shape: tuple[int, int, int, int], *, per_channel: bool) -> torch.Tensor:
    _check_float("g", g)
    wanted = shape if per_channel else shape[:3]
    if g.shape != wanted:
        kind = "one for each channel of the keys" if per_channel else "one for each head"
        raise InputError(f"expected log decays of shape {_shape(*wanted)}, {kind}, got {_shape(*g.shape)}.")
    g = g if per_channel else g[..., None]
    if torch.compiler.is_compiling():
        torch._assert_async(~(g.detach() > 0).any(), "expected log decays of at most 0 (the state is multiplied by exp(g)).")
    elif g.numel() and float(g.detach().amax()) > 0:
        raise InputError(
            f"expected log decays of at most 0 (the state is multiplied by exp(g)), got {float(g.detach().amax()):.3g}."
            " Pass the logarithm of the gate, for instance logsigmoid(x)."
        )
    return g


def _strengths(beta: torch.Tensor, shape: tuple[int, int, int]) -> torch.Tensor:
    _check_float("beta", beta)
    if beta.shape != shape:
        raise InputError(f"expected beta of shape {_shape(*shape)}, got {_shape(*beta.shape)}.")
    if torch.compiler.is_compiling():  # to read a number would cut the graph in two
        outside = ((beta.detach() < 0) | (beta.detach() > 2)).any()
        torch._assert_async(~outside, "expected beta between 0 and 2 (I - beta k k^T must not grow).")
    elif beta.numel():
        low, high = (float(value) for value in beta.detach().aminmax())
        if low < 0 or high > 2:
            raise InputError(
                f"expected beta between 0 and 2 (I - beta k k^T must not grow), got {low if low < 0 else high:.3g}. Pass it after its sigmoid."
            )
    return beta
