"""Linear attention with one data-dependent decay per head.

Papers: gated retention (arXiv 2405.05254) and the scalar case of gated linear attention (arXiv 2312.06635); Mamba-2 is this (`ssd`).

    S_t = exp(g_t) S_{t-1} + k_t v_t^T,   o_t = scale * q_t^T S_t

"""

from collections.abc import Sequence

import torch

from transect.mixers.algebra import Form, recurrence
from transect.mixers.forms import CHUNK, evaluate


def simple_gla(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    *,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Linear attention with one data-dependent decay per head.

    Args:
        q: queries ``[B, T, H, K]``.
        k: keys ``[B, T, H, K]``.
        v: values ``[B, T, H, V]``; their heads may be a multiple of those of q and k.
        g: log decays ``[B, T, H]``, at most 0; -inf forgets everything.
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
        InputError: log decays above 0, shapes that do not belong together, bounds that do not add up,
            or a form or chunk size that does not exist.

    Examples:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> simple_gla(one, one, one, torch.log(0.5 * one[..., 0]))[0].flatten()
        tensor([1.0000, 1.5000, 1.7500])
    """
    problem = recurrence(q, k, v, g=g, scale=scale, initial_state=initial_state, cu_seqlens=cu_seqlens)
    return evaluate(problem, form=form, chunk_size=chunk_size, output_final_state=output_final_state, dtype=v.dtype)
