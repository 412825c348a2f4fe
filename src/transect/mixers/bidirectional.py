"""Linear attention that looks both ways, with every kind of decay, in three forms that are one.

Paper: Linear Attention for Efficient Bidirectional Sequence Modeling (LION), Afzal et al., arXiv 2502.16249.

    y_i = scale sum_j q_i^T D_ij k_j v_j,    D_ij = exp(g_{j+1} + ... + g_i) for j <= i,    exp(g_{i+1} + ... + g_j) for j > i

and divided by the same sum without v, where it is normalised. Without g this is LION-LIT, with one number per head LION-D, with gates that
depend on the tokens LION-S. One pass reads ``j <= i``; another, over the sequence turned round, reads ``j > i`` strictly, so nothing is
counted twice and nothing subtracted:

    S_i = exp(g_{i+1}) (S_{i+1} + k_{i+1} v_{i+1}^T)
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch

from transect.errors import InputError
from transect.mixers.algebra import Form, Recurrence, checked_bounds, recurrence
from transect.mixers.forms import CHUNK, evaluate


def bidirectional_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor | None = None,
    *,
    scale: float | None = None,
    normalize: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> torch.Tensor:
    """Linear attention that looks both ways.

    Args:
        q: queries ``[B, T, H, K]``.
        k: keys ``[B, T, H, K]``.
        v: values ``[B, T, H, V]``; their heads may be a multiple of those of q and k.
        g: log decays of at most 0, ``[B, T, H]``, or ``[B, T, H, K]`` one per channel, or None; -inf keeps the sides apart.
        scale: what the readout is multiplied by; None for K ** -0.5.
        normalize: whether weights are divided by their sum, which needs products of q and k that are never negative.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T.
        form: "chunk" or "recurrent" (two passes of that form), "parallel" (one T x T matrix), "naive" (the definition), or "auto".
        chunk_size: keys in a chunk, a power of two.

    Returns:
        Outputs ``[B, T, H, V]`` in the precision of v.

    Raises:
        InputError: log decays above 0, shapes that do not belong together, bounds that do not add up, or a form or chunk size that
            does not exist.

    Examples:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> bidirectional_attention(one, one, one, torch.log(0.5 * one[..., 0])).flatten()
        tensor([1.7500, 2.0000, 1.7500])
    """
    dtype = v.dtype
    if normalize:
        wide = v.to(torch.promote_types(dtype, torch.float32))
        v = torch.cat([wide, torch.ones_like(wide[..., :1])], -1)
    problem = recurrence(q, k, v, g=g, per_channel=g is not None and g.ndim == 4, scale=scale, cu_seqlens=cu_seqlens)
    if form in {"naive", "parallel"}:
        whole = _matrix if form == "parallel" else _naive
        out = torch.cat([whole(sequence) for sequence in problem.sequences()], 1)
    else:
        settings = {"form": form, "chunk_size": chunk_size, "output_final_state": False, "dtype": problem.v.dtype}
        out = evaluate(problem, **settings)[0]
        out = out + _turn(evaluate(_after(problem), **settings)[0], problem.bounds)
    if normalize:
        out = out[..., :-1] / (out[..., -1:] + 1e-12)
    return out.to(dtype)


def both_ways(
    op: Callable[..., tuple[torch.Tensor, torch.Tensor | None]], *, cu_seqlens: Sequence[int] | None = None, **given: torch.Tensor
) -> torch.Tensor:
    """The outputs of any causal op on a sequence, plus those on the sequence turned round; every token counts its own write twice.

    Where the transition depends on what was written (the delta rule), this is the usual way to look both ways; where it does not, use
    `bidirectional_attention`.

    Args:
        op: a function of `transect.mixers`.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T.
        given: what it takes, by name, each ``[B, T, ...]`` with one row per token.

    Raises:
        InputError: a tensor of another length, bounds that do not rise from 0 to T; or as in the op.

    Examples:
        >>> from transect.mixers import delta_rule
        >>> one = torch.ones(1, 3, 1, 1)
        >>> both_ways(delta_rule, q=one, k=one, v=one, beta=one[..., 0]).flatten()
        tensor([2., 2., 2.])
    """
    tokens = {value.shape[1] for value in given.values()}
    if len(tokens) != 1:
        raise InputError(f"expected one row per token in everything given, got lengths {sorted(tokens)}.")
    bounds = checked_bounds(cu_seqlens, batch=max(len(value) for value in given.values()), tokens=tokens.pop())
    forward = op(**given, cu_seqlens=bounds)[0]
    backward = op(**{name: _turn(value, bounds) for name, value in given.items()}, cu_seqlens=bounds)[0]
    return forward + _turn(backward, bounds)


def _turn(x: torch.Tensor, bounds: tuple[int, ...] | None) -> torch.Tensor:
    """Every sequence from its end to its start."""
    if bounds is None:
        return x.flip(1)
    places = torch.cat([torch.arange(end - 1, start - 1, -1, device=x.device) for start, end in pairwise(bounds)])
    return x[:, places]


def _after(problem: Recurrence) -> Recurrence:
    """What reads, turned round, the tokens after each: their writes one place further, already decayed once."""
    k, v, g = problem.k, problem.v, problem.g
    if g is not None:
        k = k * g.exp()
    last = [problem.v.shape[1]] if problem.bounds is None else list(problem.bounds[1:])
    ends = torch.tensor([end - 1 for end in last if end > 0], dtype=torch.long, device=v.device)

    def following(x: torch.Tensor) -> torch.Tensor:
        moved = torch.cat([x[:, 1:], torch.zeros_like(x[:, :1])], 1)
        return _turn(moved.index_fill(1, ends, 0), problem.bounds)

    return Recurrence(
        q=_turn(problem.q, problem.bounds),
        k=following(k),
        v=following(v),
        g=None if g is None else following(g),
        beta=None,
        state=problem.state,
        bounds=problem.bounds,
        scale=problem.scale,
    )


def _matrix(problem: Recurrence) -> torch.Tensor:
    """All pairs at once; sums of log decays start anew at every token, so a closed gate is exact."""
    q, k, v = (part.transpose(1, 2) for part in (problem.q, problem.k, problem.v))
    if problem.g is None:
        return (problem.scale * (q @ k.mT) @ v).transpose(1, 2)
    g = problem.g.transpose(1, 2)
    later = torch.ones(g.shape[2], g.shape[2], dtype=torch.bool, device=g.device).tril(-1)[..., None]
    one_way = torch.where(later, g[:, :, :, None], 0).cumsum(2)  # i, j: from after j to i
    between = torch.where(later, one_way, one_way.transpose(2, 3)).exp()
    scores = (q @ k.mT) * between[..., 0] if between.shape[-1] == 1 else torch.einsum("bhic,bhijc,bhjc->bhij", q, between, k)
    return (problem.scale * scores @ v).transpose(1, 2)


def _naive(problem: Recurrence) -> torch.Tensor:
    q, k, v, g = problem.q, problem.k, problem.v, problem.g
    rows = []
    for i in range(q.shape[1]):
        row = torch.zeros_like(v[:, i])
        for j in range(q.shape[1]):
            low, high = min(i, j), max(i, j)
            decay = 1.0 if g is None else g[:, low + 1 : high + 1].sum(1).exp()
            row = row + problem.scale * (q[:, i] * decay * k[:, j]).sum(-1, keepdim=True) * v[:, j]
        rows.append(row)
    return torch.stack(rows, 1) if rows else v
