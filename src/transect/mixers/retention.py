"""Retention: linear attention whose heads forget at fixed rates.

Paper: Retentive Network, Sun et al., arXiv 2307.08621; Lightning Attention-2 (arXiv 2401.04658) uses the same decay.

    S_t = gamma_h S_{t-1} + k_t v_t^T,   o_t = scale * q_t^T S_t,   gamma_h = 1 - 2^(-5 - h)

"""

from collections.abc import Sequence

import torch

from transect.errors import InputError
from transect.mixers.algebra import Form, recurrence
from transect.mixers.forms import CHUNK, evaluate


def retention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    g_gamma: torch.Tensor | None = None,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Retention: linear attention whose heads forget at fixed rates.

    Args:
        q: queries ``[B, T, H, K]``.
        k: keys ``[B, T, H, K]``.
        v: values ``[B, T, H, V]``; their heads may be a multiple of those of q and k.
        g_gamma: log decays ``[H]``, at most 0; None for those of the paper.
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
        >>> retention(one, one, one, g_gamma=torch.log(torch.tensor([0.5])))[0].flatten()
        tensor([1.0000, 1.5000, 1.7500])
    """
    heads = v.shape[2] if v.ndim == 4 else 0
    if g_gamma is None:
        g_gamma = torch.log1p(-torch.exp2(-5.0 - torch.arange(heads, dtype=torch.float64, device=v.device)))
    if g_gamma.shape != (heads,):
        raise InputError(f"expected g_gamma of shape [{heads}], one log decay for each head of v, got {list(g_gamma.shape)}.")
    g = g_gamma.expand(*v.shape[:2], heads)
    problem = recurrence(q, k, v, g=g, scale=scale, initial_state=initial_state, cu_seqlens=cu_seqlens)
    return evaluate(problem, form=form, chunk_size=chunk_size, output_final_state=output_final_state, dtype=v.dtype)
