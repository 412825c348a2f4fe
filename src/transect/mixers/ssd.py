"""Structured state space duality (Mamba-2): a state space model with one decay per head.

Paper: Transformers are SSMs, Dao and Gu, arXiv 2405.21060.

    S_t = exp(dt_t A) S_{t-1} + B_t (dt_t x_t)^T,   y_t = C_t^T S_t + D x_t

that is `simple_gla` with queries C, keys B, values dt x and log decays dt A, read without a scale.
"""

from collections.abc import Sequence

import torch

from transect.errors import InputError
from transect.mixers.algebra import Form, recurrence
from transect.mixers.forms import CHUNK, evaluate


def ssd(
    x: torch.Tensor,
    dt: torch.Tensor,
    A: torch.Tensor,
    B: torch.Tensor,
    C: torch.Tensor,
    *,
    D: torch.Tensor | None = None,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Structured state space duality (Mamba-2): a state space model with one decay per head.

    Args:
        x: inputs ``[B, T, H, P]``.
        dt: step sizes ``[B, T, H]``, after their softplus.
        A: ``[H]``, below 0.
        B: ``[B, T, G, N]``; H is a multiple of G.
        C: ``[B, T, G, N]``.
        D: what of x is added to the output, ``[H]``, or None.
        scale: what the readout is multiplied by; None for 1.
        initial_state: the state before the first token, ``[N, H, N, P]``; N is B, or the number of packed sequences.
        output_final_state: whether to give the state after the last token back.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T; the state starts anew at each.
        form: "chunk" (matrix products, linear in T), "recurrent" (a loop, for decoding), "parallel" (one T x T matrix), "naive" (the
            definition), or "auto".
        chunk_size: keys in a chunk, a power of two.

    Returns:
        Outputs ``[B, T, H, P]`` in the precision of x, and the final state ``[N, H, N, P]`` in that of the computation (32 bits or
        64), or None.

    Raises:
        InputError: dt A above 0, shapes that do not belong together, bounds that do not add up,
            or a form or chunk size that does not exist.

    Examples:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> ssd(one, one[..., 0], torch.log(torch.tensor([0.5])), one, one)[0].flatten()
        tensor([1.0000, 1.5000, 1.7500])
    """
    if x.ndim != 4 or dt.shape != x.shape[:3] or A.shape != x.shape[2:3] or (D is not None and D.shape != A.shape):
        raise InputError(
            "expected x [B, T, H, P], dt [B, T, H], A [H] and D [H] or None, got"
            f" {list(x.shape)}, {list(dt.shape)}, {list(A.shape)} and {None if D is None else list(D.shape)}."
        )
    wide = torch.promote_types(x.dtype, torch.float32)
    scale = 1.0 if scale is None else scale
    v, g = x.to(wide) * dt.to(wide)[..., None], dt.to(wide) * A.to(wide)
    problem = recurrence(C, B, v, g=g, scale=scale, initial_state=initial_state, cu_seqlens=cu_seqlens)
    y, state = evaluate(problem, form=form, chunk_size=chunk_size, output_final_state=output_final_state, dtype=wide)
    return (y if D is None else y + D.to(wide)[:, None] * x).to(x.dtype), state
