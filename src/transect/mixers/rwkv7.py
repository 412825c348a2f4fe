"""RWKV-7: a state whose transition is diagonal plus rank one, with an erasing and a replacing vector of their own.

Paper: RWKV-7 "Goose" with Expressive Dynamic State Evolution, Peng et al., arXiv 2503.14456.

    S_t = Diag(exp(w_t)) S_{t-1} + b_t (a_t^T S_{t-1}) + k_t v_t^T,   o_t = scale * r_t^T S_t

RWKV-7 itself has ``a = -kappa`` and ``b = kappa * alpha`` for unit vectors kappa; the op takes any. In the chunk form what the tokens of a chunk read to erase,
``e_i = a_i^T S_{i-1}``, solves a unit-triangular system. The decay before a token is that of the token before it: the vector a_{i+1} is put at row i,
where all products exist already, and its result belongs to row i + 1. Nothing is divided by a decay, so a closed gate is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.algebra import Form, Recurrence, recurrence
from transect.mixers.chunk import check_chunk_size
from transect.mixers.decay import ChannelDecay
from transect.mixers.forms import CHUNK, choose
from transect.mixers.kernels import run_rwkv7_kernel, rwkv7_kernel_for


def rwkv7(
    r: torch.Tensor,
    w: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """RWKV-7: a state whose transition is diagonal plus rank one, with an erasing and a replacing vector of their own.

    Args:
        r: receptances, which read, ``[B, T, H, K]``.
        w: log decays ``[B, T, H, K]``, at most 0; -inf forgets the channel.
        k: keys ``[B, T, H, K]``.
        v: values ``[B, T, H, V]``.
        a: erasing vectors ``[B, T, H, K]``.
        b: replacing vectors ``[B, T, H, K]``.
        scale: what the readout is multiplied by; None for 1.
        initial_state: the state before the first token, ``[N, H, K, V]``; N is B, or the number of packed sequences.
        output_final_state: whether to give the state after the last token back.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T; the state starts anew at each.
        form: "chunk" (matrix products, linear in T), "recurrent" (a loop, for decoding), "parallel" (one T x T matrix), "naive" (the
            definition), or "auto".
        chunk_size: keys in a chunk, a power of two.

    Returns:
        Outputs ``[B, T, H, V]`` in the precision of v, and the final state ``[N, H, K, V]`` in that of the computation (32 bits or
        64), or None.

    Raises:
        InputError: log decays above 0, shapes that do not belong together, bounds that do not add up, or a form or chunk size that
            does not exist.

    Examples:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> rwkv7(one, torch.log(0.5 * one), one, one, 0 * one, 0 * one)[0].flatten()
        tensor([1.0000, 1.5000, 1.7500])
    """
    if not r.shape == k.shape == a.shape == b.shape or (v.ndim == 4 and v.shape[2] != k.shape[2]):
        shapes = [list(part.shape) for part in (r, k, v, a, b)]
        raise InputError(
            f"expected r, k, a and b of one shape [B, T, H, K] and v [B, T, H, V], got {', '.join(map(str, shapes))} (r, k, v, a, b)."
        )
    check_chunk_size(chunk_size)
    scale = 1.0 if scale is None else scale
    problem = recurrence(r, k, v, g=w, per_channel=True, scale=scale, initial_state=initial_state, cu_seqlens=cu_seqlens)
    chosen, wide = choose(form, r.shape[1]), problem.v.dtype
    kernel = rwkv7_kernel_for(problem, v.dtype) if form == "auto" and chosen == "chunk" else None
    if kernel is not None:
        out, state = run_rwkv7_kernel(kernel, problem, v.dtype, a=a, b=b)
        return out.to(v.dtype), state if output_final_state else None
    erasing = replace(problem, q=a.to(wide), k=b.to(wide)).sequences()
    found = []
    for part, other in zip(problem.sequences(), erasing, strict=True):
        one = _Problem(part=part, a=other.q, b=other.k)
        if chosen == "chunk":
            found.append(_chunked(one, chunk_size))
        else:
            found.append({"naive": _naive, "recurrent": _recurrent, "parallel": _parallel}[chosen](one))
    out, state = torch.cat([o for o, _ in found], 1), torch.cat([end for _, end in found])
    return out.to(v.dtype), state if output_final_state else None


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Problem:
    """Sequences of one length: the additive part, and what erases and replaces."""

    part: Recurrence
    a: torch.Tensor
    b: torch.Tensor

    @property
    def w(self) -> torch.Tensor:
        if self.part.g is None:
            raise TypeError("decays are always there")
        return self.part.g


def _naive(problem: _Problem) -> tuple[torch.Tensor, torch.Tensor]:
    state, outputs, part = problem.part.state, [], problem.part
    eye = torch.eye(part.q.shape[3], dtype=part.q.dtype, device=part.q.device)
    for t in range(part.q.shape[1]):
        transition = eye * problem.w[:, t].exp()[..., None] + problem.b[:, t, :, :, None] * problem.a[:, t, :, None, :]
        state = transition @ state + part.k[:, t, :, :, None] * part.v[:, t, :, None, :]
        outputs.append(part.scale * (part.q[:, t, :, None, :] @ state)[:, :, 0])
    return torch.stack(outputs, 1) if outputs else part.v, state


def _recurrent(problem: _Problem) -> tuple[torch.Tensor, torch.Tensor]:
    state, outputs, part = problem.part.state, [], problem.part
    decays, queries = problem.w.exp(), part.q * part.scale
    for t in range(part.q.shape[1]):
        erased = problem.a[:, t, :, None] @ state
        state = state * decays[:, t, :, :, None] + problem.b[:, t, ..., None] * erased
        state = torch.addcmul(state, part.k[:, t, ..., None], part.v[:, t, :, None])
        outputs.append((queries[:, t, :, None] @ state)[:, :, 0])
    return torch.stack(outputs, 1) if outputs else part.v, state


def _parallel(problem: _Problem) -> tuple[torch.Tensor, torch.Tensor]:
    part = problem.part
    tokens = part.q.shape[1]
    if tokens == 0:
        return part.v, part.state
    r, w, k, v, a, b = (x.transpose(1, 2) for x in (part.q * part.scale, problem.w, part.k, part.v, problem.a, problem.b))
    later = torch.ones(tokens, tokens, dtype=torch.bool, device=r.device).tril(-1)[..., None]
    between = torch.where(later, w[:, :, :, None], 0).cumsum(2).exp()
    since = w.cumsum(2).exp()
    before = functional.pad(since[:, :, :-1], (0, 0, 1, 0), value=1.0)
    between_before = functional.pad(between[:, :, :-1], (0, 0, 0, 0, 1, 0))

    def pairs(x: torch.Tensor, gaps: torch.Tensor, y: torch.Tensor, diagonal: int) -> torch.Tensor:
        return torch.einsum("bhic,bhijc,bhjc->bhij", x, gaps, y).tril(diagonal)

    known = (a * before) @ part.state + pairs(a, between_before, k, -1) @ v
    erased = torch.linalg.solve_triangular(-pairs(a, between_before, b, -1), known, upper=False, unitriangular=True)
    out = (r * since) @ part.state + pairs(r, between, b, 0) @ erased + pairs(r, between, k, 0) @ v
    end = between[:, :, -1]
    state = since[:, :, -1, :, None] * part.state + (b * end).mT @ erased + (k * end).mT @ v
    return out.transpose(1, 2), state


def _chunked(problem: _Problem, chunk_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    part = problem.part
    batch, tokens, heads, _ = part.q.shape
    if tokens == 0:
        return part.v, part.state
    size = min(chunk_size, 1 << max(tokens - 1, 0).bit_length())
    steps = -(-tokens // size)

    def split(x: torch.Tensor) -> torch.Tensor:  # [B, T, H, D] as [steps * B * H, size, D]
        x = functional.pad(x, (0, 0, 0, 0, 0, steps * size - tokens))
        return x.unflatten(1, (steps, size)).permute(1, 0, 3, 2, 4).flatten(0, 2).contiguous()

    r, w, k, v, a, b = (split(x) for x in (part.q * part.scale, problem.w, part.k, part.v, problem.a, problem.b))
    x = torch.stack([r, functional.pad(a[:, 1:], (0, 0, 0, 1))], 2)
    with_b, with_k, start, end = _Pairs.apply(w, x, b, k)
    reads = torch.stack([r * start, a * functional.pad(start[:, :-1], (0, 0, 1, 0), value=1.0)], 1)
    down = (0, 0, 1, 0)  # what stands at row i belongs to row i + 1
    system = -functional.pad(with_b[:, :-1, 1], down)
    solved = torch.linalg.solve_triangular(
        system, torch.cat([functional.pad(with_k[:, :-1, 1], down) @ v, reads[:, 1]], 2), upper=False, unitriangular=True
    )
    inner, outer = solved.split([v.shape[2], r.shape[2]], 2)
    local = with_b[:, :, 0] @ inner + with_k[:, :, 0] @ v
    read = reads[:, 0] + with_b[:, :, 0] @ outer
    add = (b * end).mT @ inner + (k * end).mT @ v
    move = (b * end).mT @ outer + torch.diag_embed(start[:, -1])
    state, starts = part.state.flatten(0, 1), []
    for moved, added in zip(move.unflatten(0, (steps, -1)), add.unflatten(0, (steps, -1)), strict=True):
        starts.append(state)
        state = torch.baddbmm(added, moved, state)
    out = torch.baddbmm(local, read, torch.cat(starts)).unflatten(0, (steps, batch, heads)).permute(1, 0, 3, 2, 4).flatten(1, 2)
    return out[:, :tokens], state.unflatten(0, (batch, heads))


class _Pairs(torch.autograd.Function):
    """Products between the rows of chunks, through their decays: ``[m, C, 2, C]`` for both writers, and decays to the chunks' ends."""

    @staticmethod
    def forward(ctx: Any, w: torch.Tensor, x: torch.Tensor, b: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, ...]:
        decay = ChannelDecay.of(w)
        found = decay.pairs(x, b), decay.pairs(x, k)
        ctx.save_for_backward(w, x, b, k, *found)
        return *found, decay.start.clone(), decay.end.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():
            raise InputError(
                "the chunk form can be differentiated once, and create_graph=True asks for more. Use form='recurrent' or form='parallel'."
            )
        w, x, b, k, *pairs = ctx.saved_tensors
        decay = ChannelDecay.of(w)
        later = torch.ones(w.shape[1], w.shape[1], dtype=torch.bool, device=w.device).triu(1)[:, None]
        parts = [decay.pairs_backward(grad.masked_fill(later, 0), out, x, y) for grad, out, y in zip(grads[:2], pairs, (b, k), strict=True)]
        (dx, db, logs), (other, dk, more) = parts
        both = [
            (one + two, None if three is None or four is None else three + four)
            for (one, three), (two, four) in zip(logs, more, strict=True)
        ]
        dw = decay.backward(grads[2] * decay.start, grads[3] * decay.end, both)
        return dw, dx + other, db, dk
