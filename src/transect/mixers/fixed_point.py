"""A dense linear RNN as the fixed point of sweeps that are each a diagonal one, and so run over all tokens at once.

Paper: Fixed-Point RNNs: Interpolating from Diagonal to Dense, Movahedi, Sarnthein, Muca Cirone and Orvieto, arXiv 2503.10799.

    h^l_t = a_t h^l_{t-1} + (1 - a_t) (h^{l-1}_t + Q_t (x_t - h^{l-1}_t)),   h^0 = 0,   l = 1 ... L        a_t = exp(g_t), by channel

One sweep mixes no channels through time, L of them interpolate, and the fixed point is a dense recurrence:

    (I - (I - a_t) (I - Q_t)) h_t = a_t h_{t-1} + (I - a_t) Q_t x_t

Where the rows of ``|I - Q_t|`` sum to at most rho < 1, a sweep brings the largest error over channels and tokens down by rho, however long the sequence is: a
channel's error is a weighted mean of mixed errors of earlier tokens. Then no state grows either. The eigenvalues of such a dense transition have
positive real parts, whatever Q is.

The number of sweeps is a setting and never depends on the data, or later tokens would decide on earlier outputs. All L iterates are the state, which makes
going on from it exact: one sweep's last value is not that of another.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch

from transect.errors import InputError
from transect.mixers.algebra import Form, checked_bounds
from transect.mixers.chunk import check_chunk_size
from transect.mixers.diagonal_recurrence import diagonal_recurrence
from transect.mixers.forms import CHUNK, choose
from transect.mixers.matrix_recurrence import matrix_recurrence

Mix = Callable[[torch.Tensor, torch.Tensor, slice], torch.Tensor]
"""``Q_t v_t`` of ``v [B, t, H, D]``; also given are the iterate one token before, of the sweep before, ``[B, t, H, D]``, and which tokens these are."""


def fixed_point_recurrence(
    g: torch.Tensor,
    mixing: torch.Tensor,
    additions: torch.Tensor,
    *,
    iterations: int | None = 8,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Sweeps of a diagonal recurrence whose channels a matrix mixes in between, or the dense recurrence they go to.

    Args:
        g: log decays of the channels, ``[B, T, H, D]``, at most 0.
        mixing: Q, ``[B, T, H, D, D]``; sweeps settle where ``I - Q`` is a contraction, and Q = I makes the first one final.
        additions: the inputs x, ``[B, T, H, D]``.
        iterations: sweeps; None for the fixed point itself, a dense recurrence by `matrix_recurrence`.
        initial_state: ``[N, H, iterations, D]``, 1 where iterations is None; N is B, or the number of packed sequences; None for zeros.
        output_final_state: whether to give the iterates after the last token back.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T; the state starts anew at each.
        form: "chunk" or "parallel" (sweep after sweep, each over all tokens), "recurrent" (token after token, all sweeps of each), "naive" (sweeps that are
            written out as sums), or "auto".
        chunk_size: tokens in a chunk, a power of two.

    Returns:
        The last iterate after each token ``[B, T, H, D]`` in the precision of the additions, and the state ``[N, H, iterations, D]`` in that of the
        computation (32 bits or 64), or None.

    Raises:
        InputError: shapes that do not belong together, decays above 0, no sweeps, no fixed point where it is asked for, bounds that do not add up, or a
            form or chunk size that does not exist.

    Examples:
        >>> g, x = torch.full((1, 3, 1, 2), 0.5).log(), torch.ones(1, 3, 1, 2)
        >>> swap = torch.eye(2).flip(0).expand(1, 3, 1, 2, 2)
        >>> fixed_point_recurrence(g, 0.5 * (torch.eye(2) + swap), x, iterations=20)[0][0, :, 0]
        tensor([[0.5000, 0.5000],
                [0.7500, 0.7500],
                [0.8750, 0.8750]])
    """
    check_chunk_size(chunk_size)
    if additions.ndim != 4 or g.shape != additions.shape or mixing.shape != (*additions.shape, additions.shape[-1]):
        raise InputError(
            "expected g and additions [B, T, H, D] and mixing [B, T, H, D, D], got "
            f"{list(g.shape)}, {list(additions.shape)} and {list(mixing.shape)}."
        )
    if not torch.compiler.is_compiling() and g.numel() and float(g.detach().amax()) > 0:
        raise InputError(f"expected log decays of at most 0 (states are multiplied by exp(g)), got {float(g.detach().amax()):.3g}.")
    dtype = torch.promote_types(torch.promote_types(torch.promote_types(g.dtype, mixing.dtype), additions.dtype), torch.float32)
    g, q, x = g.to(dtype), mixing.to(dtype), additions.to(dtype)
    settings = {"initial_state": initial_state, "cu_seqlens": cu_seqlens, "form": form, "chunk_size": chunk_size}
    if iterations is None:
        found, state = _limit(g, q, x, **settings)
    else:
        found, state = fixed_point_sweeps(g, x, lambda v, _, span: (q[:, span] @ v[..., None])[..., 0], iterations=iterations, **settings)
    return found.to(additions.dtype), state if output_final_state else None


def fixed_point_sweeps(
    g: torch.Tensor,
    x: torch.Tensor,
    mix: Mix,
    *,
    iterations: int,
    initial_state: torch.Tensor | None,
    cu_seqlens: torch.Tensor | Sequence[int] | None,
    form: Form,
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sweeps, with channels mixed by a function, which may look at the state one token before.

    Args:
        g: log decays, ``[B, T, H, D]``, in the precision to compute in.
        x: inputs, ``[B, T, H, D]``.
        mix: what Q does to each token; see `Mix`.
        iterations, initial_state, cu_seqlens, form, chunk_size: as in `fixed_point_recurrence`.

    Returns:
        ``h^L [B, T, H, D]`` and the iterates after the last token ``[N, H, L, D]``.

    Raises:
        InputError: no sweeps, a state of another shape, bounds that do not add up, or a form that does not exist.
    """
    batch, tokens, heads, width = x.shape
    if iterations < 1:
        raise InputError(f"expected iterations of at least 1, or None for the fixed point, got {iterations}.")
    chosen = choose(form, tokens)
    bounds = checked_bounds(cu_seqlens, batch=batch, tokens=tokens)
    count = batch if bounds is None else len(bounds) - 1
    state = _start(initial_state, (count, heads, iterations, width), x)
    decays, rest = g.exp(), -torch.expm1(g)
    spans = [(0, tokens)] if bounds is None else list(pairwise(bounds))
    found, lasts = [], []
    for row, (start, end) in enumerate(spans):
        own = state if bounds is None else state[row : row + 1]
        size = 1 if chosen == "recurrent" else max(end - start, 1)
        for first in range(start, end, size):
            span = slice(first, min(first + size, end))
            parts = {"decays": decays[:, span], "rest": rest[:, span], "x": x[:, span]}
            h, own = _sweeps(mix, span, **parts, state=own, form=chosen, chunk_size=chunk_size)
            found.append(h)
        lasts.append(own)
    return torch.cat(found, 1) if found else x, torch.cat(lasts)


def fixed_point_residual(
    g: torch.Tensor, mixing: torch.Tensor, additions: torch.Tensor, h: torch.Tensor, *, before: torch.Tensor | None = None
) -> torch.Tensor:
    """How far states are from being a fixed point: what one more sweep over them would add, each from the state that was found one token before.

    Args:
        g, mixing, additions: as in `fixed_point_recurrence`.
        h: states, ``[B, T, H, D]``.
        before: the state before the first token, ``[B, H, D]``; None for zeros.

    Returns:
        ``[B, T, H, D]``.

    Examples:
        >>> x = torch.ones(1, 2, 1, 1)
        >>> h, _ = fixed_point_recurrence(-x, 0.5 * x[..., None], x, iterations=None)
        >>> bool(fixed_point_residual(-x, 0.5 * x[..., None], x, h).abs().max() < 1e-6)
        True
    """
    earlier = torch.cat([(torch.zeros_like(h[:, 0]) if before is None else before)[:, None], h[:, :-1]], 1)
    mixed = h + (mixing @ (additions - h)[..., None])[..., 0]
    return g.exp() * earlier - torch.expm1(g) * mixed - h


def _start(given: torch.Tensor | None, shape: tuple[int, int, int, int], x: torch.Tensor) -> torch.Tensor:
    if given is None:
        return x.new_zeros(shape)
    if given.shape != shape:
        raise InputError(f"expected initial_state {list(shape)} ([sequences, H, iterations, D]), got {list(given.shape)}.")
    return given.to(x.dtype)


def _sweeps(
    mix: Mix,
    span: slice,
    *,
    decays: torch.Tensor,
    rest: torch.Tensor,
    x: torch.Tensor,
    state: torch.Tensor,
    form: Form,
    chunk_size: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    h = before = torch.zeros_like(x)
    lasts = []
    for start in state.unbind(2):
        added = rest * (h + mix(x - h, before, span))
        if form == "recurrent":
            h = torch.addcmul(added, decays, start[:, None])
        else:
            h, _ = diagonal_recurrence(decays, added, initial_state=start, form=form, chunk_size=chunk_size)
        before = torch.cat([start[:, None], h[:, :-1]], 1)
        lasts.append(h[:, -1])
    return h, torch.stack(lasts, 2)


def _limit(
    g: torch.Tensor,
    q: torch.Tensor,
    x: torch.Tensor,
    *,
    initial_state: torch.Tensor | None,
    cu_seqlens: torch.Tensor | Sequence[int] | None,
    form: Form,
    chunk_size: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The dense recurrence, its matrices made by one solve for each token."""
    batch, tokens, heads, width = x.shape
    bounds = checked_bounds(cu_seqlens, batch=batch, tokens=tokens)
    state = _start(initial_state, (batch if bounds is None else len(bounds) - 1, heads, 1, width), x)
    eye = torch.eye(width, dtype=x.dtype, device=x.device)
    rest = -torch.expm1(g)[..., None]
    left = eye - rest * (eye - q)
    right = torch.cat([torch.diag_embed(g.exp()), rest * (q @ x[..., None])], -1)
    try:
        solved = torch.linalg.solve(left, right)
    except torch.linalg.LinAlgError as error:
        raise InputError(
            "expected a mixing that has a fixed point, got one where I - (I - a) (I - Q) is singular at some token."
        ) from error
    h, last = matrix_recurrence(
        solved[..., :width],
        solved[..., width],
        initial_state=state[:, :, 0],
        output_final_state=True,
        cu_seqlens=bounds,
        form=form,
        chunk_size=chunk_size,
    )
    if last is None:
        raise TypeError("the final state was asked for")
    return h, last[:, :, None]
