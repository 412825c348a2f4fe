"""The additive recurrence of LightNet: each channel of the keys is a softmax over the tokens so far, or over all places of a grid.

Paper: You Only Scan Once: Efficient Multi-dimension Sequential Modeling with LightNet, Qin et al., arXiv 2405.21022.

    z_t = z_{t-1} + exp(k_t)                                            for each key channel, and kept as log z
    S_t = Diag(z_{t-1} / z_t) S_{t-1} + (exp(k_t) / z_t) v_t^T,   o_t = scale * q_t^T S_t

So S_t is the mean of the values so far, weighted by exp(k). The two factors are sigmoids that add up to 1,

    exp(k_t) / z_t = sigmoid(k_t - log z_{t-1}),   log(z_{t-1} / z_t) = logsigmoid(log z_{t-1} - k_t) <= 0

so the rest is gated linear attention with a decay for each channel, nothing overflows, and no two logarithms are subtracted that lie close together.
A weighted mean needs no order: on a grid of any number of dimensions one pass gives every place the mean over all.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import torch

from transect.errors import InputError
from transect.mixers.algebra import Form, Recurrence, recurrence
from transect.mixers.chunk import check_chunk_size
from transect.mixers.forms import CHUNK, choose, evaluate


def light_net(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """LightNet's additive recurrence: keys are a softmax over the tokens so far, channel by channel.

    Args:
        q: queries ``[B, T, H, K]``.
        k: logarithms of the keys' weights ``[B, T, H, K]``, of any size and sign, finite.
        v: values ``[B, T, H, V]``; their heads may be a multiple of those of q and k.
        scale: what the readout is multiplied by; None for K ** -0.5.
        initial_state: ``[N, H, K, V + 1]``, the weighted means of the values so far and, in the last column, log z; None for zeros and -inf.
        output_final_state: whether to give the state after the last token back.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T; the state starts anew at each.
        form: "chunk" (matrix products, linear in T), "recurrent" (a loop, for decoding), "parallel" (one T x T matrix), "naive" (the
            softmax over the tokens so far, written out for each token), or "auto".
        chunk_size: keys in a chunk, a power of two.

    Returns:
        Outputs ``[B, T, H, V]`` in the precision of v, and the final state ``[N, H, K, V + 1]`` in that of the computation (32 bits or
        64), or None.

    Raises:
        InputError: shapes that do not belong together, bounds that do not add up, or a form or chunk size that does not exist.

    Examples:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> light_net(one, one, torch.tensor([3.0, 5.0, 10.0]).view(1, 3, 1, 1))[0].flatten()
        tensor([3., 4., 6.])
    """
    problem = recurrence(q, k, v, scale=scale, cu_seqlens=cu_seqlens)
    means, log_z = _state(problem, initial_state)
    chosen = choose(form, q.shape[1])
    check_chunk_size(chunk_size)
    if chosen == "naive":
        o, state = _naive(problem, means, log_z)
        return o.to(v.dtype), state if output_final_state else None
    sums = _per_sequence(problem, log_z)
    before, log_z = torch.cat([one[:, :-1] for one in sums], 1), torch.cat([one[:, -1] for one in sums])
    above = problem.k - before
    g = torch.nn.functional.logsigmoid(-above).masked_fill(before.isneginf(), 0)  # nothing there to forget; kernels want finite decays
    gated = replace(problem, k=above.sigmoid().to(problem.k.dtype), g=g.to(problem.k.dtype), state=means)
    o, state = evaluate(gated, form=form, chunk_size=chunk_size, output_final_state=output_final_state, dtype=v.dtype)
    return o, None if state is None else torch.cat([state, log_z[..., None].to(state.dtype)], 3)


def additive_grid_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float | None = None) -> torch.Tensor:
    """LightNet on a grid: every place reads the means of all values, weighted by exp(k); one pass, in no order.

    Args:
        q: queries ``[B, *grid, H, K]``, with one dimension of the grid or more.
        k: logarithms of the keys' weights, of the same shape; -inf leaves a place out of a channel.
        v: values ``[B, *grid, H, V]``.
        scale: what the readout is multiplied by; None for K ** -0.5.

    Returns:
        ``[B, *grid, H, V]`` in the precision of v.

    Raises:
        InputError: numbers that are not floating-point, or shapes that do not belong together.

    Examples:
        >>> one = torch.ones(1, 2, 2, 1, 1)
        >>> additive_grid_attention(one, one, torch.arange(4.0).view(1, 2, 2, 1, 1)).flatten()
        tensor([1.5000, 1.5000, 1.5000, 1.5000])
    """
    for name, part in (("q", q), ("k", k), ("v", v)):
        if not part.is_floating_point() or part.ndim < 4 or part.shape[-1] == 0:
            raise InputError(
                f"expected {name} of floating-point numbers and of shape [B, *grid, H, D] with one grid dimension or more and D above 0,"
                f" got {part.dtype} {list(part.shape)}."
            )
    if q.shape != k.shape or k.shape[:-1] != v.shape[:-1]:
        raise InputError(
            f"expected q and k of one shape, and v of the same batch, grid and heads; got q {list(q.shape)}, k {list(k.shape)} and v {list(v.shape)}."
        )
    dtype = torch.promote_types(torch.promote_types(torch.promote_types(q.dtype, k.dtype), v.dtype), torch.float32)
    places = [part.to(dtype).flatten(1, -3).transpose(1, 2) for part in (q, k, v)]  # [B, H, places, D]
    means = places[1].softmax(2).mT @ places[2]
    o = places[0] @ means * (q.shape[-1] ** -0.5 if scale is None else float(scale))
    return o.transpose(1, 2).reshape(v.shape).to(v.dtype)


def _state(problem: Recurrence, state: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The means ``[N, H, K, V]`` and log z ``[N, H, K]`` before the first token; where nothing was weighted, the mean is 0."""
    count, heads, width, values = problem.state.shape
    if state is None:
        return problem.state, problem.state.new_full((count, heads, width), -torch.inf)
    shape = (count, heads, width, values + 1)
    if state.shape != shape or not state.is_floating_point():
        raise InputError(
            f"expected initial_state of shape {list(shape)} ([sequences, H, K, V + 1]), got {state.dtype} {list(state.shape)}."
            " Pass the final state of the same op and batch, or None."
        )
    state = state.to(problem.k.dtype)
    means, log_z = state[..., :-1], state[..., -1]
    return means.masked_fill(log_z.isneginf()[..., None], 0), log_z


def _per_sequence(problem: Recurrence, log_z: torch.Tensor) -> list[torch.Tensor]:
    """For each packed sequence log z before its first token and after each, ``[B, T + 1, H, K]``, in 64 bits: large keys leave few digits in 32."""
    pieces, starts = (
        ([problem.k], [log_z])
        if problem.bounds is None
        else ([problem.k[:, start:end] for start, end in pairwise(problem.bounds)], list(log_z.split(1)))
    )
    return [torch.cat([start[:, None].double(), piece.double()], 1).logcumsumexp(1) for start, piece in zip(starts, pieces, strict=True)]


def _naive(problem: Recurrence, means: torch.Tensor, log_z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The definition: for each token a softmax over what was before and the tokens so far, and the mean of the values under it."""
    outputs, states = [problem.v[:, :0]], []
    for index, one in enumerate(problem.sequences()):
        each = slice(None) if problem.bounds is None else slice(index, index + 1)
        weights = torch.cat([log_z[each, None], one.k], 1)  # [B, 1 + T, H, K]
        state = means[each]
        for t in range(one.q.shape[1]):
            share = weights[:, : t + 2].softmax(1)
            state = share[:, 0, ..., None] * means[each] + torch.einsum("bshk,bshv->bhkv", share[:, 1:], one.v[:, : t + 1])
            outputs.append(problem.scale * torch.einsum("bhk,bhkv->bhv", one.q[:, t], state)[:, None])
        states.append(torch.cat([state, weights.logsumexp(1)[..., None]], -1))
    return torch.cat(outputs, 1), torch.cat(states)
