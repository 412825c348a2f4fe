"""A causal convolution of each channel by itself, whose kernel is a sum of damped oscillations: a diagonal state space, of which only outputs are kept.

    y_t = sum_{s <= t} K_{t-s} x_s,   K_j = Re sum_i c_i a_i^j,   a = exp(log_a) complex, |a| <= 1

The kernel of S4D (Gu et al., arXiv 2206.11893) and of CHELA's long convolution (Liu et al., arXiv 2406.08128). It goes by tiles of tokens: within one a
matrix of the kernel's first taps, between them the states, which are never kept for every token. The other forms are those of `transect.mixers.diagonal_ssm`.
"""

from itertools import pairwise

import torch

from transect.errors import InputError
from transect.mixers.algebra import Form
from transect.mixers.diagonal_ssm import diagonal_ssm

TILE = 32


def diagonal_convolution(
    x: torch.Tensor,
    log_a: torch.Tensor,
    taps: torch.Tensor,
    *,
    initial_state: torch.Tensor | None = None,
    bounds: tuple[int, ...] | None = None,
    form: Form = "auto",
    tile: int = TILE,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs ``[B, T, D]`` and the last states ``[N, D * S]``, complex.

    Args:
        x: ``[B, T, D]``, real, in the precision of log_a and taps.
        log_a: logarithms of the transitions, ``[D, S]``, complex, real parts at most 0.
        taps: c, ``[D, S]``, complex.
        initial_state: ``[N, D * S]``, complex; None for zeros.
        bounds: where sequences packed into a batch of 1 begin, and T.
        form: "auto" and "chunk" go by tiles; "recurrent", "parallel" and "naive" are those of `transect.mixers.diagonal_ssm`.
        tile: tokens that are computed together.

    Raises:
        InputError: states that grow, shapes that do not belong together, or a form that does not exist.

    Examples:
        >>> half = torch.tensor([[0.5]]).log().to(torch.complex64)
        >>> diagonal_convolution(torch.ones(1, 3, 1), half, torch.ones_like(half))[0].flatten()
        tensor([1.0000, 1.5000, 1.7500])
    """
    if x.ndim != 3 or log_a.ndim != 2 or len(log_a) != x.shape[2] or taps.shape != log_a.shape:
        raise InputError(f"expected x [B, T, D], log_a and taps [D, S], got {list(x.shape)}, {list(log_a.shape)} and {list(taps.shape)}.")
    if bounds is not None:
        parts = [
            diagonal_convolution(
                x[:, start:end],
                log_a,
                taps,
                initial_state=None if initial_state is None else initial_state[row : row + 1],
                form=form,
                tile=tile,
            )
            for row, (start, end) in enumerate(pairwise(bounds))
        ]
        return torch.cat([y for y, _ in parts], 1), torch.cat([last for _, last in parts])
    state, found, whole = initial_state, [], x.shape[1] // tile * tile if form in {"auto", "chunk"} else 0
    if whole:
        y, state = _tiles(x[:, :whole], log_a, taps, state, tile)
        found.append(y)
    rest = x[:, whole:]
    written = rest.to(log_a.dtype)[..., None].expand(*rest.shape, log_a.shape[1]).flatten(2)
    h, last = diagonal_ssm(written, log_a.flatten(), initial_state=state, form=form)
    found.append((h.unflatten(2, log_a.shape) * taps).real.sum(-1))
    return torch.cat(found, 1), last


def kernel(log_a: torch.Tensor, taps: torch.Tensor, tokens: int) -> torch.Tensor:
    """The kernel's first taps, ``[tokens, D]``."""
    powers = (torch.arange(tokens, device=log_a.device)[:, None, None] * log_a).exp()
    return (powers * taps).real.sum(-1)


def _tiles(
    x: torch.Tensor, log_a: torch.Tensor, taps: torch.Tensor, state: torch.Tensor | None, tile: int
) -> tuple[torch.Tensor, torch.Tensor]:
    batch, tokens, _ = x.shape
    tiles = x.unflatten(1, (-1, tile)).permute(3, 2, 0, 1).flatten(2)  # [D, tile, B * tiles]
    places = torch.arange(tile, device=x.device)
    gaps = places[:, None] - places
    within = torch.where((gaps >= 0)[..., None], kernel(log_a, taps, tile)[gaps.clamp_min(0)], 0).permute(2, 0, 1)  # [D, tile, tile]
    powers = (places[:, None, None] * log_a).exp()  # [tile, D, S]
    written = powers.flip(0).permute(1, 2, 0) @ tiles.to(powers.dtype)  # what each tile adds to the state after it, [D, S, B * tiles]
    written = written.unflatten(2, (batch, -1)).permute(2, 3, 0, 1).flatten(2)
    after, last = diagonal_ssm(written, tile * log_a.flatten(), initial_state=state, form="recurrent")
    before = torch.cat([(torch.zeros_like(last) if state is None else state)[:, None], after[:, :-1]], 1)
    before = before.unflatten(2, log_a.shape).permute(2, 3, 0, 1).flatten(2)
    read = (powers * log_a.exp() * taps).transpose(0, 1)  # [D, tile, S]
    y = within @ tiles + read.real @ before.real - read.imag @ before.imag
    return y.unflatten(2, (batch, -1)).permute(2, 3, 1, 0).reshape(batch, tokens, -1), last
