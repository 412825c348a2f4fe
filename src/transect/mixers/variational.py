"""Variational linear attention (VLA): writes in the directions in which the keys so far say least, each of unit length.

Paper: Variational Linear Attention, 2026. Memory is an online regularised least-squares problem, whose penalty matrix is kept by the
Sherman-Morrison formula:

    P_t = P_{t-1} - P_{t-1} k_t k_t^T P_{t-1} / (1 + k_t^T P_{t-1} k_t) = (penalty I + sum_s k_s k_s^T)^{-1}
    u_t = P_{t-1} k_t / |P_{t-1} k_t|
    S_t = (I - u_t u_t^T) S_{t-1} + u_t v_t^T,   o_t = scale * q_t^T S_t

The Jacobian ``I - u u^T`` is a projection, so its spectral norm is exactly 1 wherever there are two key channels or more. How the normalised
direction enters the write is the plainest form with that property; the paper's kernel may differ in detail. P is kept as ``L L^T``, which is positive
whatever rounding does: ``L_t = L_{t-1} (I - c z z^T)`` with ``z = L^T k``, ``r = sqrt(1 + |z|^2)`` and ``c = 1 / (r (r + 1))``.

The directions depend on keys alone and are found token by token; the memory is then a delta rule with keys u and beta 1, in any of its forms.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import torch

from transect.errors import InputError
from transect.mixers.algebra import Form, recurrence
from transect.mixers.forms import CHUNK, evaluate


def variational_linear_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    penalty: float = 1.0,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Variational linear attention (VLA): writes in the directions in which the keys so far say least.

    Args:
        q: queries ``[B, T, H, K]``.
        k: keys ``[B, T, H, K]``; a key of zeros writes nothing.
        v: values ``[B, T, H, V]``; their heads may be a multiple of those of q and k.
        penalty: of the least-squares problem, above 0.
        scale: what the readout is multiplied by; None for K ** -0.5.
        initial_state: ``[N, H, K, V + K]``, S and L side by side; None for zeros and ``I / sqrt(penalty)``.
        output_final_state: whether to give the state after the last token back.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T; the state starts anew at each.
        form: how the memory is computed: "chunk", "recurrent", "parallel", "naive" (the definition), or "auto".
        chunk_size: keys in a chunk, a power of two.

    Returns:
        Outputs ``[B, T, H, V]`` in the precision of v, and the final state ``[N, H, K, V + K]`` in that of the computation (32 bits or
        64), or None.

    Raises:
        InputError: a penalty that is not above 0, shapes that do not belong together, bounds that do not add up, or a form or chunk
            size that does not exist.

    Examples:
        >>> k = torch.eye(2)[None, :, None]
        >>> variational_linear_attention(k, k, torch.tensor([3.0, 5.0]).view(1, 2, 1, 1), scale=1.0)[0].flatten()
        tensor([3., 5.])
    """
    if not penalty > 0:
        raise InputError(f"expected a penalty above 0, got {penalty}.")
    width = v.shape[3] if v.ndim == 4 else 0
    if initial_state is None:
        memory = factor = None
    else:
        if initial_state.ndim != 4 or initial_state.shape[3] != width + k.shape[3]:
            raise InputError(
                f"expected initial_state of shape [N, H, K, V + K] with V + K = {width + k.shape[3]}, got {list(initial_state.shape)}."
            )
        memory, factor = initial_state[..., :width], initial_state[..., width:]
    heads, tokens = v.shape[2], v.shape[:2]
    problem = recurrence(q, k, v, beta=v.new_ones(*tokens, heads), scale=scale, initial_state=memory, cu_seqlens=cu_seqlens)
    if factor is None:
        factor = torch.eye(k.shape[3], dtype=problem.k.dtype, device=k.device).expand(*problem.state.shape[:2], -1, -1) / penalty**0.5
    factor = factor.to(problem.k.dtype)
    directions = _by_the_book if form == "naive" else _directions
    if problem.bounds is None:
        u, factor = directions(problem.k, factor)
    else:
        found = [directions(problem.k[:, start:end], factor[row : row + 1]) for row, (start, end) in enumerate(pairwise(problem.bounds))]
        u, factor = torch.cat([one for one, _ in found], 1), torch.cat([one for _, one in found])
    o, state = evaluate(replace(problem, k=u), form=form, chunk_size=chunk_size, output_final_state=output_final_state, dtype=v.dtype)
    return o, None if state is None else torch.cat([state, factor], 3)


def _directions(k: torch.Tensor, factor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Directions ``[B, T, H, K]``, and L after the last of them."""
    found = []
    for key in k.unbind(1):
        z = (key[..., None, :] @ factor)[..., 0, :]
        raw = (factor @ z[..., None])[..., 0]
        r = (1 + z.square().sum(-1)).sqrt()[..., None, None]
        factor = factor - raw[..., :, None] * z[..., None, :] / (r * (r + 1))
        found.append(_unit(raw))
    return torch.stack(found, 1) if found else k, factor


def _by_the_book(k: torch.Tensor, factor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same by the formulas as they stand, with every matrix written out."""
    eye, found = torch.eye(k.shape[3], dtype=k.dtype, device=k.device), []
    for key in k.unbind(1):
        z = torch.einsum("bhij,bhi->bhj", factor, key)
        found.append(_unit(torch.einsum("bhij,bhkj,bhk->bhi", factor, factor, key)))
        r = (1 + torch.einsum("bhi,bhi->bh", z, z)).sqrt()
        factor = factor @ (eye - torch.einsum("bhi,bhj->bhij", z, z) / (r * (r + 1))[..., None, None])
    return torch.stack(found, 1) if found else k, factor


def _unit(x: torch.Tensor) -> torch.Tensor:
    """Of length exactly one, and 0 for 0, where its gradient is 0 as well."""
    square = x.square().sum(-1, keepdim=True)
    there = square > 0
    return torch.where(there, x * torch.where(there, square, 1).rsqrt(), 0 * x)
