"""DeltaProduct: several delta steps per token, so that its transition is a product of Householder matrices.

Paper: DeltaProduct, Siems et al., arXiv 2502.10297.

    S_t = H_{t,r} ... H_{t,1} exp(g_t) S_{t-1} + writes,   H_{t,j} = I - beta_{t,j} k_{t,j} k_{t,j}^T,   o_t = scale * q_t^T S_t


With beta = 2 and unit keys every step is a reflection: n - 1 of them swap, and so permute, n things exactly.
"""

from collections.abc import Sequence

import torch

from transect.mixers.algebra import Form, recurrence
from transect.mixers.forms import CHUNK, evaluate


def delta_product(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor | None,
    beta: torch.Tensor,
    *,
    num_householder: int,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """DeltaProduct: several delta steps per token, so that its transition is a product of Householder matrices.

    Args:
        q: queries ``[B, T, H, K]``.
        k: keys ``[B, T * r, H, K]``, those of a token side by side.
        v: values ``[B, T * r, H, V]``.
        g: log decays ``[B, T, H]``, at most 0, or None.
        beta: writing strengths ``[B, T * r, H]`` between 0 and 2.
        num_householder: r, the delta steps per token.
        scale: what the readout is multiplied by; None for K ** -0.5.
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
        InputError: log decays above 0, beta outside [0, 2], shapes that do not belong together, bounds that do not add up,
            or a form or chunk size that does not exist.

    Examples:
        >>> one = torch.ones(1, 2, 1, 1)
        >>> delta_product(one[:, :1], one, one, None, 0.5 * one[..., 0], num_householder=2)[0].flatten()
        tensor([0.7500])
    """
    problem = recurrence(q, k, v, g=g, beta=beta, rank=num_householder, scale=scale, initial_state=initial_state, cu_seqlens=cu_seqlens)
    return evaluate(problem, form=form, chunk_size=chunk_size, output_final_state=output_final_state, dtype=v.dtype)
