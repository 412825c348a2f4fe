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
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import torch

from transect.errors import InputError
from transect.mixers.algebra import Recurrence
from transect.mixers.decay import Decay
from transect.mixers.layout import Layout

_ROWS = 4096  # rows of all heads in a group of chunks: a few megabytes of working set


def chunked(problem: Recurrence, chunk_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs ``[B, T, H, V]`` and final states ``[N, H, K, V]``; differentiable once.

    Args:
        problem: the recurrence.
        chunk_size: keys in a chunk, a power of two; shorter sequences take the next power of two above their length.

    Raises:
        InputError: a chunk size that is no power of two.

    Examples:
        >>> from transect.mixers.algebra import recurrence
        >>> one = torch.ones(1, 3, 1, 1)
        >>> chunked(recurrence(one, one, one), 2)[0].flatten()
        tensor([1., 2., 3.])
    """
    if chunk_size < 1 or chunk_size & (chunk_size - 1):
        raise InputError(f"expected chunk_size as a power of two (32 and 64 are fast), got {chunk_size}.")
    rank = problem.rank
    problem = problem.one_key_a_token()
    batch, tokens = problem.q.shape[:2]
    longest = tokens
    if problem.bounds is not None:
        longest = max(end - start for start, end in pairwise(problem.bounds))
    layout = Layout(batch=batch, tokens=tokens, chunk=min(chunk_size, 1 << max(longest - 1, 0).bit_length()), bounds=problem.bounds)
    order = torch.tensor(layout.order, device=problem.v.device)
    state = problem.state if problem.bounds is None else problem.state[order]
    writing = problem.k if problem.beta is None else problem.k * problem.beta[..., None]
    erasing = None if problem.beta is None else problem.k
    keep = torch.is_grad_enabled()
    out, state = _Chunked.apply(problem.q, erasing, writing, problem.v, problem.g, state, layout, problem.scale, keep)
    return out[:, rank - 1 :: rank], state if problem.bounds is None else state[order.argsort()]


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
        slabs: for each step, the range of its chunks.
    """

    x: torch.Tensor
    w: torch.Tensor
    v: torch.Tensor
    decay: Decay | None
    pairs: torch.Tensor
    reads: torch.Tensor
    writes: torch.Tensor
    slabs: list[tuple[int, int]]

    @classmethod
    def read(cls, parts: list[torch.Tensor | None], layout: Layout, span: range, scale: float) -> "_Group":
        q, k, w, v, g = (None if part is None else layout.read(part, span) for part in parts)
        if q is None or w is None or v is None:
            raise TypeError("queries, keys and values are always there")
        lead = q.shape[:3]
        x = q.new_empty(*lead, layout.chunk, 1 if k is None else 2, q.shape[4])
        torch.mul(q, scale, out=x[..., -1, :])
        if k is not None:
            x[..., 0, :].copy_(k)
        x, w, v = x.flatten(0, 2), w.contiguous().flatten(0, 2), v.contiguous().flatten(0, 2)
        slabs, start = [], 0
        for step in span:
            stop = start + layout.active[step] * lead[2]
            slabs.append((start, stop))
            start = stop
        if g is None:
            pairs = torch.bmm(x.flatten(1, 2), w.mT).view(*x.shape[:3], layout.chunk)
            pairs.masked_fill_(_later(layout.chunk, x.device), 0)
            return cls(x, w, v, None, pairs, x, w, slabs)
        decay = Decay.of(g.contiguous().flatten(0, 2))
        return cls(x, w, v, decay, decay.pairs(x, w), x * decay.start[:, :, None], w * decay.end, slabs)

    def fade(self, state: torch.Tensor, slab: tuple[int, int]) -> torch.Tensor:
        """Decay states by their whole chunk, in place."""
        return state if self.decay is None else state.mul_(self.decay.start[slab[0] : slab[1], -1, :, None])


def _later(chunk: int, device: torch.device) -> torch.Tensor:
    return torch.ones(chunk, chunk, dtype=torch.bool, device=device).triu(1)[:, None]


class _Chunked(torch.autograd.Function):
    """The chunk form with its backward pass; states in the order of the layout."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes arguments by position
        ctx: Any,
        q: torch.Tensor,
        k: torch.Tensor | None,
        w: torch.Tensor,
        v: torch.Tensor,
        g: torch.Tensor | None,
        state: torch.Tensor,
        layout: Layout,
        scale: float,
        keep: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        shape = state.shape
        state = state.flatten(0, 1).clone()
        out = torch.empty_like(v, memory_format=torch.contiguous_format)
        kept = []
        for span in _spans(layout, v.shape[2]):
            group = _Group.read([q, k, w, v, g], layout, span, scale)
            starts = state.new_empty(group.v.shape[0], *state.shape[1:])
            inverse = solved = None
            added = group.v
            if k is not None:
                inverse = _inverse(group.pairs[:, :, 0])
                added = torch.bmm(inverse, group.v)
                solved = torch.bmm(inverse, group.reads[:, :, 0])
                for slab in group.slabs:
                    here, current = slice(*slab), state[: slab[1] - slab[0]]
                    starts[here] = current
                    added[here].baddbmm_(solved[here], current, alpha=-1)
                    group.fade(current, slab).baddbmm_(group.writes[here].mT, added[here])
            else:
                fresh = torch.bmm(group.writes.mT, group.v)
                for slab in group.slabs:
                    current = state[: slab[1] - slab[0]]
                    starts[slice(*slab)] = current
                    group.fade(current, slab).add_(fresh[slice(*slab)])
            tile = torch.bmm(group.pairs[:, :, -1], added).baddbmm_(group.reads[:, :, -1], starts)
            layout.write(out, span, tile)
            if keep:
                kept += [starts] if k is None else [starts, inverse, added, solved]
        ctx.layout, ctx.scale = layout, scale
        ctx.save_for_backward(q, k, w, v, g, *kept)
        return out, state.view(shape)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        if torch.is_grad_enabled():
            raise InputError(
                "the chunk form can be differentiated once, and create_graph=True asks for more. Use form='recurrent' or form='parallel'."
            )
        dout, dfinal = grad_outputs
        layout, scale = ctx.layout, ctx.scale
        q, k, w, v, g, *kept = ctx.saved_tensors
        each = 1 if k is None else 4
        dstate = dfinal.flatten(0, 1).clone()
        dparts = [None if part is None else torch.empty_like(part, memory_format=torch.contiguous_format) for part in (q, k, w, v, g)]
        spans = _spans(layout, v.shape[2])
        for index, span in reversed(list(enumerate(spans))):
            group = _Group.read([q, k, w, v, g], layout, span, scale)
            tile = layout.read(dout, span).contiguous().flatten(0, 2)
            found = _group_backward(group, tile, dstate, kept[each * index : each * (index + 1)])
            for whole, part in zip(dparts, found, strict=True):
                if whole is not None and part is not None:
                    layout.write(whole, span, part)
        if dparts[0] is not None:
            dparts[0].mul_(scale)
        return *dparts, dstate.view(dfinal.shape), None, None, None


def _spans(layout: Layout, heads: int) -> list[range]:
    return layout.spans(max(_ROWS // (heads * layout.chunk), 1))


def _group_backward(group: _Group, dout: torch.Tensor, dstate: torch.Tensor, kept: list[torch.Tensor]) -> tuple[torch.Tensor | None, ...]:
    """Gradients of queries, erasing keys, writing keys, values and log decays; `dstate` goes from the span's end to its start."""
    starts, *solution = kept
    inverse, added, solved = solution if solution else (None, group.v, None)
    m, size, r, width = group.x.shape
    decay, ends = group.decay, torch.empty_like(starts)  # the gradients of the states at the chunks' ends
    dadded = torch.bmm(group.pairs[:, :, -1].mT, dout)
    dstarts = torch.bmm(group.reads[:, :, -1].mT, dout)
    for slab in reversed(group.slabs):
        here, current = slice(*slab), dstate[: slab[1] - slab[0]]
        ends[here] = current
        if solved is not None:
            dadded[here].baddbmm_(group.writes[here], current)
        group.fade(current, slab).add_(dstarts[here])
        if solved is not None:
            current.baddbmm_(solved[here].mT, dadded[here], alpha=-1)
    if inverse is None:
        dv = dadded.baddbmm_(group.writes, ends)
        both = dout[:, :, None]
    else:
        dv = torch.bmm(inverse.mT, dadded)
        both = torch.stack([-dv, dout], 2)
    flat = both.flatten(1, 2)
    dreads = torch.bmm(flat, starts.mT).view_as(group.x)
    dpairs = torch.bmm(flat, added.mT).view_as(group.pairs)
    dpairs.masked_fill_(_later(size, dpairs.device), 0)
    if r == 2:
        dpairs[:, :, 0].diagonal(dim1=1, dim2=2).zero_()
    dwrites = torch.bmm(added, ends.mT)
    if decay is None:
        inner = dpairs.view(m, size * r, size)
        dx = dreads.view(m, size * r, width).baddbmm_(inner, group.w).view_as(group.x)
        dw, dg = dwrites.baddbmm_(inner.mT, group.x.flatten(1, 2)), None
    else:
        dx, dw, logs = decay.pairs_backward(dpairs, group.pairs, group.x, group.w)
        dstart, dend = (dreads * group.reads).sum(2), dwrites * group.writes
        dstart[:, -1] += (starts * ends).sum(2) * decay.start[:, -1]
        if decay.scalar:
            dstart, dend = dstart.sum(2, keepdim=True), dend.sum(2, keepdim=True)
        dx.addcmul_(dreads, decay.start[:, :, None])
        dw.addcmul_(dwrites, decay.end)
        dg = decay.backward(dstart, dend, logs)
    return dx[:, :, -1], dx[:, :, 0] if r == 2 else None, dw, dv, dg


def _inverse(lower: torch.Tensor) -> torch.Tensor:
    """``(I + A)^{-1}`` of ``[m, C, C]``, from what is strictly below the diagonal of A; by substitution."""
    eye = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    return torch.linalg.solve_triangular(lower, eye.expand(lower.shape), upper=False, unitriangular=True)
