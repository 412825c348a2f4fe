"""Queries contracted along the directions in which the memory is crowded, before they read it.

Paper: Don't Read Everything: A Curvature-Conditioned Query for Linear Attention, Le et al., arXiv 2606.01294.

    C_t = Diag(exp(g_t)) C_{t-1} + k_t k_t^T            running second moment of the keys, as a linear attention whose values are the keys
    n_t = exp(g_t) n_{t-1} + |k_t|^2                    its trace; with decays per channel, one number for each row
    q~_t = q_t - eta C_t^T (q_t / n_t)

With one decay per head C_t / n_t is symmetric, with eigenvalues of at least 0 and sum 1, so 0 <= eta <= 1 only ever shortens a query. The abstract says
that the query is contracted by the key covariance kept by the layer's own recurrence; that it is not centred, and divided by its trace, is this
package's choice.
"""

from collections.abc import Sequence

import torch

from transect.errors import InputError
from transect.mixers.algebra import Form, recurrence
from transect.mixers.chunk import check_chunk_size
from transect.mixers.forms import CHUNK, choose, evaluate


def curvature_query(
    q: torch.Tensor,
    k: torch.Tensor,
    g: torch.Tensor | None,
    eta: torch.Tensor,
    *,
    num_householder: int = 1,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Queries contracted along the directions in which the keys so far are crowded.

    Args:
        q: queries ``[B, T, H, K]``; the heads of g and eta may be a multiple of those of q and k.
        k: keys ``[B, T * num_householder, H, K]``.
        g: log decays ``[B, T, H]`` or, one for each channel of the keys, ``[B, T, H, K]``, at most 0; None for none.
        eta: ``[H]``, how much is taken away; 0 leaves the queries as they are.
        num_householder: keys per token.
        initial_state: what a call before gave back, ``[N, H, K, K + 1]``: C, and n in the last column. N is B, or the number of packed sequences.
        output_final_state: whether to give that back after the last token.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T; C and n start anew at each.
        form: "chunk" (matrix products, linear in T), "recurrent" (a loop, for decoding), "parallel" (one T x T matrix), "naive" (the
            definition), or "auto".
        chunk_size: keys in a chunk, a power of two.

    Returns:
        Contracted queries ``[B, T, H, K]`` in the precision of q, and the final state in that of the computation (32 bits or 64), or None.

    Raises:
        InputError: log decays above 0, shapes that do not belong together, bounds that do not add up, or a form or chunk size that does not exist.

    Examples:
        >>> q = torch.tensor([1.0, 1.0]).expand(1, 3, 1, 2)
        >>> k = torch.tensor([1.0, 0.0]).expand(1, 3, 1, 2)
        >>> curvature_query(q, k, None, torch.tensor([0.75]))[0][0, -1, 0]
        tensor([0.2500, 1.0000])
    """
    if eta.ndim != 1 or not eta.is_floating_point():
        raise InputError(f"expected eta as a vector of one number for each head, got {eta.dtype} {list(eta.shape)}.")
    if q.ndim != 4 or k.ndim != 4 or k.shape[2] == 0 or len(eta) % k.shape[2] or (g is not None and g.ndim not in {3, 4}):
        raise InputError(
            f"expected q and k [B, T, H, D], g [B, T, H] or [B, T, H, K] and eta [H] of as many heads or a multiple, got {list(q.shape)},"
            f" {list(k.shape)}, {None if g is None else list(g.shape)} and {list(eta.shape)}."
        )
    chosen = choose(form, q.shape[1])
    check_chunk_size(chunk_size)
    heads, width, per_channel = len(eta), q.shape[3], g is not None and g.ndim == 4
    keys = k.repeat_interleave(heads // k.shape[2], 2)
    moments = recurrence(q, k, keys, g=g, per_channel=per_channel, rank=num_householder, scale=1.0, cu_seqlens=cu_seqlens)
    dtype, count = moments.q.dtype, len(moments.state)
    shape = (count, heads, width, width + 1)
    if initial_state is not None and (initial_state.shape != shape or not initial_state.is_floating_point()):
        raise InputError(f"expected initial_state of shape {list(shape)}, got {initial_state.dtype} {list(initial_state.shape)}.")
    start = moments.q.new_zeros(shape) if initial_state is None else initial_state.to(dtype)
    weight = moments.k.square().sum(3).unflatten(1, (-1, num_householder)).sum(2)[..., None].expand(-1, -1, -1, width)
    if per_channel:  # a head for each channel, each with its own decay
        weight, decay, mass = weight.flatten(2)[..., None], None if g is None else g.flatten(2), start[..., width:].flatten(1, 2)[..., None]
    else:
        decay, mass = g, start[..., width:].mT
    one = torch.ones_like(weight[..., :1])
    traces = recurrence(one, one, weight, g=decay, scale=1.0, initial_state=mass, cu_seqlens=cu_seqlens)
    n, mass = evaluate(traces, form=chosen, chunk_size=chunk_size, output_final_state=True, dtype=dtype)
    n = n.reshape(moments.q.shape)
    # A sum that overflowed is no answer, and q / inf looks like one.
    divided = moments.q / n.masked_fill(n == 0, 1).masked_fill(n.isinf(), torch.nan)
    moments = recurrence(
        divided,
        moments.k,
        keys.to(dtype),
        g=g,
        per_channel=per_channel,
        rank=num_householder,
        scale=1.0,
        initial_state=start[..., :width],
        cu_seqlens=cu_seqlens,
    )
    taken, state = evaluate(moments, form=chosen, chunk_size=chunk_size, output_final_state=True, dtype=dtype)
    if state is None or mass is None:
        raise TypeError("the final states were asked for")
    queries = q.repeat_interleave(heads // q.shape[2], 2)
    out = (queries - eta.to(dtype)[:, None] * taken).to(q.dtype)
    return out, torch.cat([state, mass.reshape(*shape[:3], 1)], 3) if output_final_state else None
