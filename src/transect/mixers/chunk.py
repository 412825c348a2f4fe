"""The chunk form: inside a chunk matrix products, between chunks a recurrence over states; the cost is linear in T.

With decays ``pre`` and ``suf`` to the chunk's ends and ``Gamma`` between rows (`transect.mixers.decay`), and ``W = beta K``, the keys that write:

    A = stril(Gamma * (K W^T)),  P = tril(Gamma * (Q W^T))
    E = (I + A)^{-1} (V - (pre K) S)         what each token really adds: its value less what the state already answers
    O = (pre Q) S + P E
    S <- a_C S + (suf W)^T E

The unit-triangular system is solved once per chunk by substitution, against the identity; the sums of a Neumann series would overflow for keys that resemble
each other. Without beta there is no A, and E = V. The paper of the delta rule's form is arXiv 2406.06484, of its gated form 2412.06464.

The backward pass is written by hand: it keeps, per chunk, the inverse, E, (I + A)^{-1} (pre K) and the state at the start, and computes the rest
again. Chunks are worked on in groups that fit a processor's cache, so the time and the memory beyond inputs and outputs do not grow with T.

Numbers that are not finite, or whose products overflow, reach back to the start of their chunk: P is 0 above the diagonal, and 0 times inf is
NaN. No earlier chunk, no other head and no other sequence sees them. In the parallel form the whole sequence is one chunk; in "recurrent" and
"naive" they reach forwards only. To find such a chunk and compute it again token by token would be possible on a CPU only: neither a compiled
graph nor a GPU's kernel can, and the same call would answer differently there.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import torch

from transect.errors import InputError
from transect.mixers.algebra import Recurrence
from transect.mixers.decay import ChannelDecay, ScalarDecay
from transect.mixers.layout import Layout
from transect.mixers.scan import scan, scan_backward

_ROWS = 4096  # rows of all heads in a group of chunks: a few megabytes of working set


def chunked(problem: Recurrence, chunk_size: int, *, longest: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs ``[B, T, H, V]`` and final states ``[N, H, K, V]``; differentiable once.

    Args:
        problem: the recurrence.
        chunk_size: keys in a chunk, a power of two; shorter sequences take the next power of two above their length.
        longest: what to take for the longest sequence's keys there, where lengths depend on what the sequences hold; None for what it is.

    Raises:
        InputError: a chunk size that is no power of two.

    Examples:
        >>> from transect.mixers.algebra import recurrence
        >>> one = torch.ones(1, 3, 1, 1)
        >>> chunked(recurrence(one, one, one), 2)[0].flatten()
        tensor([1., 2., 3.])
    """
    check_chunk_size(chunk_size)
    rank = problem.rank
    problem = problem.one_key_a_token()
    batch, tokens = problem.q.shape[:2]
    if longest is None:
        longest = tokens if problem.bounds is None else max(end - start for start, end in pairwise(problem.bounds))
    layout = Layout(batch=batch, tokens=tokens, chunk=min(chunk_size, 1 << max(longest - 1, 0).bit_length()), bounds=problem.bounds)
    order = torch.tensor(layout.order, device=problem.v.device)
    state = problem.state if problem.bounds is None else problem.state[order]
    parts = (problem.q, problem.k, problem.v, problem.g, problem.beta)
    out, state = _Chunked.apply(*parts, state, layout, problem.scale, torch.is_grad_enabled())
    return out[:, rank - 1 :: rank], state if problem.bounds is None else state[order.argsort()]


def check_chunk_size(chunk_size: int) -> None:
    """Refuse a chunk size that is no power of two.

    Raises:
        InputError: it is none.
    """
    if chunk_size < 1 or chunk_size & (chunk_size - 1):
        raise InputError(f"expected chunk_size as a power of two (32 and 64 are fast), got {chunk_size}.")


@final
@dataclass(frozen=True, eq=False)
class _Group:
    """The chunks of a span of steps, ``m`` of them over all heads, and what follows from them without a state.

    Args:
        x: ``[m, C, r, K]``, what reads states: the queries, and before them the erasing keys where there are any (r = 2).
        w: ``[m, C, K]``, the keys that write.
        v: ``[m, C, V]``.
        decay: products of decays; None where nothing decays.
        pairs: ``[m, C, r, C]``, A and P of the module's formulas.
        reads: x times the decay since the chunk's start.
        writes: w times the decay to the chunk's end.
        beta: ``[m, C, 1]``, or None.
        sizes: the number of chunks at each step.
    """

    x: torch.Tensor
    w: torch.Tensor
    v: torch.Tensor
    decay: ScalarDecay | ChannelDecay | None
    pairs: torch.Tensor
    reads: torch.Tensor
    writes: torch.Tensor
    beta: torch.Tensor | None
    sizes: list[int]

    @classmethod
    def read(cls, parts: list[torch.Tensor | None], layout: Layout, span: range, scale: float, *, gradients: bool) -> "_Group":
        q, k, v, g, beta = (None if part is None else layout.read(part, span) for part in parts)
        if q is None or k is None or v is None:
            raise TypeError("queries, keys and values are always there")
        x = q.new_empty(*q.shape[:4], 1 if beta is None else 2, q.shape[4])
        torch.mul(q, scale, out=x[..., -1, :])
        if beta is not None:
            x[..., 0, :].copy_(k)
            beta = beta.contiguous().flatten(0, 2)
        x, v = x.flatten(0, 2), v.contiguous().flatten(0, 2)
        w = k.contiguous().flatten(0, 2) if beta is None else x[:, :, 0] * beta
        sizes = [layout.active[step] * q.shape[2] for step in span]
        if g is None:
            pairs = torch.bmm(x.flatten(1, 2), w.mT).view(*x.shape[:3], layout.chunk)
            pairs.masked_fill_(_later(layout.chunk, x.device), 0)
            return cls(x, w, v, None, pairs, x, w, beta, sizes)
        g = g.contiguous().flatten(0, 2)
        kind = ScalarDecay if g.shape[2] == 1 else ChannelDecay
        if gradients:
            decay = kind.of(g)
            pairs = decay.pairs(x, w)
        else:
            decay, pairs = kind.paired(g, x, w)
        return cls(x, w, v, decay, pairs, x * decay.start[:, :, None], w * decay.end, beta, sizes)

    @property
    def fade(self) -> torch.Tensor | None:
        """``[m, K or 1, 1]``: the decay of each whole chunk."""
        return None if self.decay is None else self.decay.start[:, -1, :, None]


def _later(chunk: int, device: torch.device) -> torch.Tensor:
    return torch.ones(chunk, chunk, dtype=torch.bool, device=device).triu(1)[:, None]


def _spans(layout: Layout, heads: int) -> list[range]:
    return layout.spans(max(_ROWS // (heads * layout.chunk), 1))


class _Chunked(torch.autograd.Function):
    """The chunk form with its backward pass; states in the order of the layout."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes arguments by position
        ctx: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        g: torch.Tensor | None,
        beta: torch.Tensor | None,
        state: torch.Tensor,
        layout: Layout,
        scale: float,
        keep: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        shape = state.shape
        state = state.flatten(0, 1).clone()
        out = torch.empty_like(v, memory_format=torch.contiguous_format)
        parts = [q, k, v, g, None if beta is None else beta[..., None]]
        kept = []
        for span in _spans(layout, v.shape[2]):
            group = _Group.read(parts, layout, span, scale, gradients=False)
            inverse = solved = None
            added = group.v
            if beta is not None:
                inverse = _inverse(group.pairs[:, :, 0])
                added = torch.bmm(inverse, group.v)
                solved = torch.bmm(inverse, group.reads[:, :, 0])
            starts = scan(state, group.writes, added, solved=solved, fade=group.fade, sizes=group.sizes)
            layout.write(out, span, torch.bmm(group.pairs[:, :, -1], added).baddbmm_(group.reads[:, :, -1], starts))
            if keep:
                kept += [starts] if beta is None else [starts, inverse, added, solved]
        ctx.layout, ctx.scale = layout, scale
        ctx.save_for_backward(q, k, v, g, beta, *kept)
        return out, state.view(shape)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        if torch.is_grad_enabled():
            raise InputError(
                "the chunk form can be differentiated once, and create_graph=True asks for more. Use form='recurrent' or form='parallel'."
            )
        dout, dfinal = grad_outputs
        layout, scale = ctx.layout, ctx.scale
        q, k, v, g, beta, *kept = ctx.saved_tensors
        parts = [q, k, v, g, None if beta is None else beta[..., None]]
        each = 1 if beta is None else 4
        dstate = dfinal.flatten(0, 1).clone()
        dparts = [None if part is None else torch.empty_like(part, memory_format=torch.contiguous_format) for part in parts]
        for index, span in reversed(list(enumerate(_spans(layout, v.shape[2])))):
            group = _Group.read(parts, layout, span, scale, gradients=True)
            tile = layout.read(dout, span).contiguous().flatten(0, 2)
            found = _group_backward(group, tile, dstate, kept[each * index : each * (index + 1)])
            found[0].mul_(scale)
            for whole, part in zip(dparts, found, strict=True):
                if whole is not None and part is not None:
                    layout.write(whole, span, part)
        dq, dk, dv, dg, dbeta = dparts
        return dq, dk, dv, dg, None if dbeta is None else dbeta[..., 0], dstate.view(dfinal.shape), None, None, None


def _group_backward(
    group: _Group, dout: torch.Tensor, dstate: torch.Tensor, kept: list[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """Gradients of queries, keys, values, log decays and beta; `dstate` goes from the span's end to its start."""
    starts, *solution = kept
    inverse, added, solved = solution if solution else (None, group.v, None)
    m, size, r, width = group.x.shape
    decay, x, w = group.decay, group.x, group.w
    dv = torch.bmm(group.pairs[:, :, -1].mT, dout)
    dstarts = torch.bmm(group.reads[:, :, -1].mT, dout)
    ends = scan_backward(dstate, dstarts, dv, writes=group.writes, solved=solved, fade=group.fade, sizes=group.sizes)
    flat = dout
    if inverse is not None:
        dv = torch.bmm(inverse.mT, dv)
        flat = torch.stack([-dv, dout], 2).flatten(1, 2)
    dreads = torch.bmm(flat, starts.mT).view_as(x)
    dpairs = torch.bmm(flat, added.mT).view_as(group.pairs)
    dpairs.masked_fill_(_later(size, dpairs.device), 0)
    if r == 2:
        dpairs[:, :, 0].diagonal(dim1=1, dim2=2).zero_()
    dwrites = torch.bmm(added, ends.mT)
    dg = None
    if decay is None:
        inner = dpairs.view(m, size * r, size)
        dx = dreads.view(m, size * r, width).baddbmm_(inner, w).view_as(x)
        dw = dwrites.baddbmm_(inner.mT, x.flatten(1, 2))
    else:
        dx, dw, logs = decay.pairs_backward(dpairs, group.pairs, x, w)
        dstart, dend = (dreads * group.reads).sum(2), dwrites * group.writes
        dstart[:, -1] += (starts * ends).sum(2) * decay.start[:, -1]
        dx.addcmul_(dreads, decay.start[:, :, None])
        dw.addcmul_(dwrites, decay.end)
        dg = decay.backward(dstart, dend, logs)
    if group.beta is None:
        return dx[:, :, -1], dw, dv, dg, None
    return dx[:, :, 1], torch.addcmul(dx[:, :, 0], dw, group.beta), dv, dg, (dw * x[:, :, 0]).sum(2, keepdim=True)


def _inverse(lower: torch.Tensor) -> torch.Tensor:
    """``(I + A)^{-1}`` of ``[m, C, C]``, from what is strictly below the diagonal of A; by substitution."""
    eye = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    return torch.linalg.solve_triangular(lower, eye.expand(lower.shape), upper=False, unitriangular=True)
