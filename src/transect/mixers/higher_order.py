"""Second-order linear attention: a value counts as far as two queries agree on the keys between them.

Paper: Higher-order Linear Attention, Zhang, Qin and Gu, arXiv 2510.27258.

    W = tril(Q K^T),   O = scale * tril(W W^T) V
    S_t = S_{t-1} + k_t k_t^T,   M_t = M_{t-1} + (S_t q_t) v_t^T,   o_t = scale * q_t^T M_t

M_t is the paper's ``S_t C_t - G_t`` with ``C_t = sum q v^T`` and ``G_t = sum k k^T C_{t-1}``, and all that its readout needs of C and G. So the
layer is linear attention twice: the second one's keys ``S_t q_t`` are what the first one reads. Two stretches of text join by
``S = S_1 + S_2, M = M_1 + M_2 + S_1 C_2``. The paper's decayed variant is not here.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from transect.errors import InputError
from transect.mixers.algebra import Form, Recurrence, recurrence
from transect.mixers.chunk import check_chunk_size
from transect.mixers.forms import CHUNK, choose, evaluate


def higher_order_linear_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    normalize: bool = False,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Second-order linear attention, causal.

    Args:
        q: queries ``[B, T, H, K]``.
        k: keys ``[B, T, H, K]``.
        v: values ``[B, T, H, V]``; their heads may be a multiple of those of q and k.
        normalize: whether outputs are divided by the sum of their weights, which must not vanish: for q and k without negative entries.
        scale: what the readout is multiplied by; None for K ** -0.5; without effect where outputs are normalised.
        initial_state: S and M before the first token, ``[N, H, K, K + V]``; N is B, or the number of packed sequences. One more column
            where outputs are normalised.
        output_final_state: whether to give S and M after the last token back.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T; the state starts anew at each.
        form: "chunk" (matrix products, linear in T), "recurrent" (a loop, for decoding), "parallel" (T x T matrices), "naive" (the
            definition), or "auto".
        chunk_size: keys in a chunk, a power of two.

    Returns:
        Outputs ``[B, T, H, V]`` in the precision of v, and the final state in that of the computation (32 bits or 64), or None.

    Raises:
        InputError: shapes that do not belong together, bounds that do not add up, or a form or chunk size that does not exist.

    Examples:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> higher_order_linear_attention(one, one, one)[0].flatten()
        tensor([1., 3., 6.])
        >>> higher_order_linear_attention(one, one, one, normalize=True)[0].flatten()
        tensor([1., 1., 1.])
    """
    problem = recurrence(q, k, v, scale=1.0 if normalize else scale, cu_seqlens=cu_seqlens)
    if normalize:
        problem = replace(problem, v=torch.cat([problem.v, torch.ones_like(problem.v[..., :1])], -1))
    sums, reads = _state(problem, initial_state)
    chosen = choose(form, q.shape[1])
    check_chunk_size(chunk_size)
    if chosen == "naive":
        out, state = _naive(problem, sums, reads)
    else:
        dtype = problem.q.dtype
        first = replace(problem, v=problem.k, state=sums, scale=1.0)
        keys, sums = evaluate(first, form=chosen, chunk_size=chunk_size, output_final_state=True, dtype=dtype)
        second = replace(problem, k=keys, state=reads)
        out, reads = evaluate(second, form=chosen, chunk_size=chunk_size, output_final_state=True, dtype=dtype)
        if sums is None or reads is None:
            raise TypeError("the final states were asked for")
        state = torch.cat([sums, reads], -1)
    if normalize:
        out = out[..., :-1] / (out[..., -1:] + 1e-12)
    return out.to(v.dtype), state if output_final_state else None


def _state(problem: Recurrence, state: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """S ``[N, H, K, K]`` and M ``[N, H, K, V]`` before the first token."""
    count, heads, width = problem.state.shape[:3]
    shape = (count, heads, width, width + problem.v.shape[3])
    if state is None:
        state = problem.q.new_zeros(shape)
    elif state.shape != shape or not state.is_floating_point():
        raise InputError(
            f"expected initial_state of shape {list(shape)} ([sequences, H, K, K + V]), got {state.dtype} {list(state.shape)}."
            " Pass the final state of the same op and batch, or None."
        )
    return state[..., :width].to(problem.q.dtype), state[..., width:].to(problem.q.dtype)


def _naive(problem: Recurrence, sums: torch.Tensor, reads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The definition: every weight ``(q_t^T k_i)(k_i^T q_j)``, i up to j, j up to t, pair by pair of queries."""
    outputs, states = [problem.v[:, :0]], []
    for index, sequence in enumerate(problem.sequences()):
        each = slice(None) if problem.bounds is None else slice(index, index + 1)
        before, held = sums[each], reads[each]
        q, k, v = (part.unbind(1) for part in (sequence.q, sequence.k, sequence.v))
        for t in range(len(q)):
            out = torch.einsum("bhk,bhkv->bhv", q[t], held)
            agreed = torch.einsum("bihk,bhk->bih", sequence.k[:, : t + 1], q[t])
            for j in range(t + 1):
                weight = torch.einsum("bhk,bhkl,bhl->bh", q[j], before, q[t])
                weight = weight + torch.einsum("bih,bihk,bhk->bh", agreed[:, : j + 1], sequence.k[:, : j + 1], q[j])
                out = out + weight[..., None] * v[j]
            outputs.append(problem.scale * out[:, None])
        for key, query, value in zip(k, q, v, strict=True):
            before = before + key[..., :, None] * key[..., None, :]
            held = held + (before.mT @ query[..., None]) * value[..., None, :]
        states.append(torch.cat([before, held], -1))
    return torch.cat(outputs, 1), torch.cat(states)
