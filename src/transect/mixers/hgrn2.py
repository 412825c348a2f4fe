"""HGRN2: gated linear attention whose keys are what the forget gates leave open.

Paper: HGRN2: Gated Linear RNNs with State Expansion, Qin et al., arXiv 2404.07904.

    S_t = Diag(f_t) S_{t-1} + (1 - f_t) v_t^T,   o_t = scale * q_t^T S_t,   f_t = exp(g_t)

"""

from collections.abc import Sequence

import torch

from transect.mixers.algebra import Form, recurrence
from transect.mixers.forms import CHUNK, evaluate


def hgrn2(
    q: torch.Tensor,
    g: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """HGRN2: gated linear attention whose keys are what the forget gates leave open.

    Args:
        q: queries ``[B, T, H, K]``.
        g: logarithms of the forget gates ``[B, T, H, K]``, at most 0; the keys are ``1 - exp(g)``.
        v: values ``[B, T, H, V]``, the paper's i.
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
        >>> hgrn2(one, torch.log(0.5 * one), one)[0].flatten()
        tensor([0.5000, 0.7500, 0.8750])
    """
    problem = recurrence(
        q,
        -torch.expm1(g.to(torch.promote_types(g.dtype, torch.float32))),
        v,
        g=g,
        per_channel=True,
        scale=scale,
        initial_state=initial_state,
        cu_seqlens=cu_seqlens,
    )
    return evaluate(problem, form=form, chunk_size=chunk_size, output_final_state=output_final_state, dtype=v.dtype)
