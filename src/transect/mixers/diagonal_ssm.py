"""The recurrence of time-invariant state space models: each state turns and fades at a rate of its own.

Papers: S4D, arXiv 2206.11893; S5, arXiv 2208.04933; LRU, arXiv 2303.06349.

    h_t = a h_{t-1} + x_t,   a = exp(log_a) complex, |a| <= 1

The definition is the sum that this comes to, ``h_t = a^{t+1} h_{-1} + a^t x_0 + ... + x_t``.

In chunks: within one a matrix of powers of a, between them the state. No Fourier transform, which would let later tokens into earlier ones' last digits.
"""

from itertools import pairwise

import torch

from transect.errors import InputError
from transect.mixers.algebra import Form
from transect.mixers.forms import choose

CHUNK = 16


def diagonal_ssm(
    x: torch.Tensor,
    log_a: torch.Tensor,
    *,
    initial_state: torch.Tensor | None = None,
    bounds: tuple[int, ...] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor]:
    """All states ``[B, T, S]`` and the last ``[N, S]``, complex.

    Args:
        x: what is added to the states, ``[B, T, S]``, complex.
        log_a: logarithms of the transitions, ``[S]``, complex, real parts at most 0.
        initial_state: ``[N, S]``, complex; None for zeros.
        bounds: where sequences packed into a batch of 1 begin, and T.
        form: "chunk", "recurrent" (a loop), "parallel" (one chunk), "naive" (the sum, written out), or "auto".
        chunk_size: tokens in a chunk.

    Raises:
        InputError: states that grow, shapes that do not belong together, or a form that does not exist.

    Examples:
        >>> x = torch.ones(1, 3, 1, dtype=torch.complex64)
        >>> diagonal_ssm(x, torch.tensor([0.5]).log().to(torch.complex64))[0].real.flatten()
        tensor([1.0000, 1.5000, 1.7500])
    """
    if x.ndim != 3 or log_a.shape != x.shape[2:]:
        raise InputError(f"expected x [B, T, S] and log_a [S], got {list(x.shape)} and {list(log_a.shape)}.")
    if not torch.compiler.is_compiling() and log_a.numel() and float(log_a.detach().real.max()) > 0:
        raise InputError(f"expected log_a with real parts of at most 0, got {float(log_a.detach().real.max()):.3g}; the state would grow.")
    count = len(x) if bounds is None else len(bounds) - 1
    state = x.new_zeros(count, x.shape[2]) if initial_state is None else initial_state.to(x.dtype)
    if state.shape != (count, x.shape[2]):
        raise InputError(f"expected initial_state [{count}, {x.shape[2]}], got {list(state.shape)}.")
    if bounds is None:
        return _one(x, log_a, state, form, chunk_size)
    parts = [_one(x[:, start:end], log_a, state[row : row + 1], form, chunk_size) for row, (start, end) in enumerate(pairwise(bounds))]
    return torch.cat([states for states, _ in parts], 1), torch.cat([last for _, last in parts])


def _one(x: torch.Tensor, log_a: torch.Tensor, state: torch.Tensor, form: Form, chunk_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = x.shape[1]
    chosen = choose(form, tokens)
    if tokens == 0:
        return x, state
    if chosen == "naive":
        return _naive(x, log_a, state)
    if chosen == "recurrent":
        a, found = log_a.exp(), []
        for one in x.unbind(1):
            state = a * state + one
            found.append(state)
        return torch.stack(found, 1), state
    size = tokens if chosen == "parallel" else min(chunk_size, tokens)
    powers = (torch.arange(size + 1, device=x.device)[:, None] * log_a).exp()  # [size + 1, S]
    gaps = torch.arange(size, device=x.device)[:, None] - torch.arange(size, device=x.device)
    within = torch.where((gaps >= 0)[..., None], powers[gaps.clamp_min(0)], 0).permute(2, 0, 1)  # [S, size, size]
    found = []
    for start in range(0, tokens, size):
        part = x[:, start : start + size]
        count = part.shape[1]
        own = torch.bmm(within[:, :count, :count], part.permute(2, 1, 0)).permute(2, 1, 0)
        states = own + powers[1 : count + 1] * state[:, None]
        found.append(states)
        state = states[:, -1]
    return torch.cat(found, 1), state


def _naive(x: torch.Tensor, log_a: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    rows = []
    for t in range(x.shape[1]):
        row = (log_a * (t + 1)).exp() * state
        for s in range(t + 1):
            row = row + (log_a * (t - s)).exp() * x[:, s]
        rows.append(row)
    return torch.stack(rows, 1), rows[-1]
