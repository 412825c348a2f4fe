"""A vector state whose channels each token multiplies by numbers of its choice: diagonal transitions, real, or complex for rotations.

Paper: Revisiting Bi-Linear State Transitions in Recurrent Neural Networks, Ebrahimi and Memisevic, arXiv 2505.21749.

    h_t = a_t * h_{t-1} + b_t

A complex number turns and stretches two real channels. What `transect.mixers.matrix_recurrence` does with matrices costs D numbers here instead of D x D. The
definition is the sum that this comes to, ``h_t = a_t ... a_0 h_{-1} + a_t ... a_1 b_0 + ... + b_t``; nothing is divided, so a number of 0 is exact.
"""

from collections.abc import Sequence

import torch
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.algebra import Form, checked_bounds
from transect.mixers.chunk import check_chunk_size
from transect.mixers.forms import CHUNK, choose
from transect.mixers.rows import one_by_one


def diagonal_recurrence(
    factors: torch.Tensor,
    additions: torch.Tensor,
    *,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """A vector state whose channels each token multiplies by numbers of its choice.

    Args:
        factors: ``[B, T, H, D]``, real or complex; nothing bounds them, and a state grows where they are above 1.
        additions: ``[B, T, H, D]``, what is added; complex where the factors are.
        initial_state: ``[N, H, D]``; N is B, or the number of packed sequences; None for zeros.
        output_final_state: whether to give the state after the last token back.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T; the state starts anew at each.
        form: "chunk" (all chunks at once), "recurrent" (a loop), "parallel" (a scan in log T steps), "naive" (the sum, written out), or "auto".
        chunk_size: tokens in a chunk, a power of two.

    Returns:
        States after each token ``[B, T, H, D]`` in the precision of the additions, and the last ``[N, H, D]`` in that of the computation (32 bits
        or 64), or None.

    Raises:
        InputError: shapes that do not belong together, real numbers beside complex ones, bounds that do not add up, or a form or chunk size that does
            not exist.

    Examples:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> diagonal_recurrence(-one, 0 * one, initial_state=one[:, 0])[0].flatten()
        tensor([-1.,  1., -1.])
    """
    check_chunk_size(chunk_size)
    if additions.ndim != 4 or factors.shape != additions.shape or factors.is_complex() != additions.is_complex():
        raise InputError(
            "expected factors and additions [B, T, H, D], both real or both complex, got "
            f"{factors.dtype} {list(factors.shape)} and {additions.dtype} {list(additions.shape)}."
        )
    batch, tokens, heads, width = additions.shape
    chosen = choose(form, tokens)
    bounds = checked_bounds(cu_seqlens, batch=batch, tokens=tokens)
    dtype = torch.promote_types(torch.promote_types(factors.dtype, additions.dtype), torch.float32)
    a, b = factors.to(dtype), additions.to(dtype)
    count = batch if bounds is None else len(bounds) - 1
    if initial_state is not None and (initial_state.shape != (count, heads, width) or initial_state.is_complex() != a.is_complex()):
        raise InputError(
            f"expected initial_state {dtype} [{count}, {heads}, {width}], got {initial_state.dtype} {list(initial_state.shape)}."
        )
    state = a.new_zeros(count, heads, width) if initial_state is None else initial_state.to(dtype)
    run = {"naive": _naive, "recurrent": _recurrent, "parallel": _scan, "chunk": _chunked}[chosen]
    out, last = one_by_one(run, a, b, state, bounds=bounds, chunk_size=chunk_size)
    return out.to(additions.dtype), last if output_final_state else None


Found = tuple[torch.Tensor, torch.Tensor]


def _naive(a: torch.Tensor, b: torch.Tensor, state: torch.Tensor, size: int) -> Found:
    del size
    found = []
    for t in range(a.shape[1]):
        row = a[:, : t + 1].prod(1) * state
        for s in range(t + 1):
            row = row + a[:, s + 1 : t + 1].prod(1) * b[:, s]
        found.append(row)
    return torch.stack(found, 1), found[-1]


def _recurrent(a: torch.Tensor, b: torch.Tensor, state: torch.Tensor, size: int) -> Found:
    del size
    found = []
    for factor, added in zip(a.unbind(1), b.unbind(1), strict=True):
        state = torch.addcmul(added, factor, state)
        found.append(state)
    return torch.stack(found, 1), state


def _scan(a: torch.Tensor, b: torch.Tensor, state: torch.Tensor, size: int) -> Found:
    """Every token's map is composed with that of 1, 2, 4, ... tokens before, until none is left."""
    del size
    reach = 1
    while reach < a.shape[1]:
        later = a[:, reach:]
        a, b = (
            torch.cat([a[:, :reach], later * a[:, :-reach]], 1),
            torch.cat([b[:, :reach], torch.addcmul(b[:, reach:], later, b[:, :-reach])], 1),
        )
        reach *= 2
    out = torch.addcmul(b, a, state[:, None])
    return out, out[:, -1]


def _chunked(a: torch.Tensor, b: torch.Tensor, state: torch.Tensor, size: int) -> Found:
    tokens = b.shape[1]
    size = min(size, 1 << max(tokens - 1, 0).bit_length())
    missing = (0, 0, 0, 0, 0, -tokens % size)
    a = functional.pad(a, missing, value=1.0).unflatten(1, (-1, size))
    b = functional.pad(b, missing).unflatten(1, (-1, size))
    product, sum_, products, sums = torch.ones_like(a[:, :, 0]), torch.zeros_like(b[:, :, 0]), [], []
    for factor, added in zip(a.unbind(2), b.unbind(2), strict=True):
        product, sum_ = factor * product, torch.addcmul(added, factor, sum_)
        products.append(product)
        sums.append(sum_)
    starts = []
    for step in range(a.shape[1]):
        starts.append(state)
        state = torch.addcmul(sum_[:, step], product[:, step], state)
    out = torch.addcmul(torch.stack(sums, 2), torch.stack(products, 2), torch.stack(starts, 1)[:, :, None])
    return out.flatten(1, 2)[:, :tokens], state
