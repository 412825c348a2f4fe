"""A vector state moved by a matrix that each token chooses: block-diagonal, bilinear and dense transitions.

Papers: Advancing Regular Language Reasoning in Linear Recurrent Neural Networks, Fan et al., arXiv 2309.07412; Revisiting Bi-Linear State
Transitions in Recurrent Neural Networks, Ebrahimi and Memisevic, arXiv 2505.21749.

    h_t = A_t h_{t-1} + b_t

Heads are the blocks of a block-diagonal matrix. In chunks, products of the matrices are made for all chunks at once, row after row, and states go
from chunk to chunk. A permutation is such a matrix, so any finite automaton is tracked exactly. Diagonal matrices and rotations cost far less in
`transect.mixers.diagonal_recurrence`.
"""

from collections.abc import Sequence

import torch
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.algebra import Form, checked_bounds
from transect.mixers.chunk import check_chunk_size
from transect.mixers.forms import choose
from transect.mixers.rows import one_by_one

CHUNK = 16
_WIDE = 32  # products of wider matrices cost more than a loop over tokens, whatever the chunk


def matrix_recurrence(
    transitions: torch.Tensor,
    additions: torch.Tensor,
    *,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """A vector state moved by a matrix that each token chooses.

    Args:
        transitions: ``[B, T, H, D, D]``, each applied from the left.
        additions: ``[B, T, H, D]``, what is added.
        initial_state: ``[N, H, D]``; N is B, or the number of packed sequences; None for zeros.
        output_final_state: whether to give the state after the last token back.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T; the state starts anew at each.
        form: "chunk" (all chunks at once), "recurrent" (a loop), "parallel" (a scan in log T steps), "naive" (the definition), or "auto"
            ("recurrent" for few tokens and for heads wider than 32, else "chunk").
        chunk_size: tokens in a chunk, a power of two.

    Returns:
        States after each token ``[B, T, H, D]`` in the precision of the additions, and the last ``[N, H, D]`` in that of the computation (32 bits
        or 64), or None.

    Raises:
        InputError: shapes that do not belong together, bounds that do not add up, or a form or chunk size that does not exist.

    Examples:
        >>> swap = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).expand(1, 3, 1, 2, 2)
        >>> matrix_recurrence(swap, torch.zeros(1, 3, 1, 2), initial_state=torch.tensor([[[1.0, 0.0]]]))[0][0, :, 0]
        tensor([[0., 1.],
                [1., 0.],
                [0., 1.]])
    """
    check_chunk_size(chunk_size)
    if additions.ndim != 4 or transitions.shape != (*additions.shape, additions.shape[-1]):
        raise InputError(
            f"expected transitions [B, T, H, D, D] and additions [B, T, H, D], got {list(transitions.shape)} and {list(additions.shape)}."
        )
    batch, tokens, heads, width = additions.shape
    chosen = "recurrent" if form == "auto" and width > _WIDE else choose(form, tokens)
    bounds = checked_bounds(cu_seqlens, batch=batch, tokens=tokens)
    dtype = torch.promote_types(torch.promote_types(transitions.dtype, additions.dtype), torch.float32)
    a, b = transitions.to(dtype), additions.to(dtype)
    count = batch if bounds is None else len(bounds) - 1
    state = a.new_zeros(count, heads, width) if initial_state is None else initial_state.to(dtype)
    if state.shape != (count, heads, width):
        raise InputError(f"expected initial_state [{count}, {heads}, {width}], got {list(state.shape)}.")
    run = {"naive": _naive, "recurrent": _recurrent, "parallel": _scan, "chunk": _chunked}[chosen]
    out, last = one_by_one(run, a, b, state, bounds=bounds, chunk_size=chunk_size)
    return out.to(additions.dtype), last if output_final_state else None


Found = tuple[torch.Tensor, torch.Tensor]


def _naive(a: torch.Tensor, b: torch.Tensor, state: torch.Tensor, size: int) -> Found:
    del size
    found = []
    for t in range(a.shape[1]):
        state = torch.einsum("bhij,bhj->bhi", a[:, t], state) + b[:, t]
        found.append(state)
    return torch.stack(found, 1), state


def _recurrent(a: torch.Tensor, b: torch.Tensor, state: torch.Tensor, size: int) -> Found:
    del size
    found = []
    for matrix, added in zip(a.unbind(1), b.unbind(1), strict=True):
        state = (matrix @ state[..., None])[..., 0] + added
        found.append(state)
    return torch.stack(found, 1), state


def _scan(a: torch.Tensor, b: torch.Tensor, state: torch.Tensor, size: int) -> Found:
    """Every token's map is composed with that of 1, 2, 4, ... tokens before, until none is left."""
    del size
    reach = 1
    while reach < a.shape[1]:
        moved = (a[:, reach:] @ b[:, :-reach, ..., None])[..., 0] + b[:, reach:]
        a = torch.cat([a[:, :reach], a[:, reach:] @ a[:, :-reach]], 1)
        b = torch.cat([b[:, :reach], moved], 1)
        reach *= 2
    out = (a @ state[:, None, ..., None])[..., 0] + b
    return out, out[:, -1]


def _chunked(a: torch.Tensor, b: torch.Tensor, state: torch.Tensor, size: int) -> Found:
    batch, tokens, heads, width = b.shape
    size = min(size, 1 << max(tokens - 1, 0).bit_length())
    missing = -tokens % size
    eye = torch.eye(width, dtype=a.dtype, device=a.device)
    if missing:
        a = torch.cat([a, eye.expand(batch, missing, heads, width, width)], 1)
        b = functional.pad(b, (0, 0, 0, 0, 0, missing))
    a, b = a.unflatten(1, (-1, size)), b.unflatten(1, (-1, size))
    both = torch.cat([eye, eye.new_zeros(width, 1)], 1).expand(*b.shape[:2], heads, width, width + 1)
    maps = []
    for i in range(size):
        both = a[:, :, i] @ both + functional.pad(b[:, :, i, ..., None], (width, 0))
        maps.append(both)
    whole = torch.stack(maps, 2)  # [B, steps, size, H, D, D + 1]
    starts = []
    for step in range(whole.shape[1]):
        starts.append(state)
        last = whole[:, step, -1]
        state = (last[..., :width] @ state[..., None])[..., 0] + last[..., width]
    out = (whole[..., :width] @ torch.stack(starts, 1)[:, :, None, ..., None])[..., 0] + whole[..., width]
    return out.flatten(1, 2)[:, :tokens], state
