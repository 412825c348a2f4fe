"""State matrices that remember: HiPPO and its diagonal approximations, and the time scales of state space layers.

Papers: HiPPO, Gu et al., arXiv 2008.07669; How to Train Your HiPPO, Gu et al., arXiv 2206.12037; On the Parameterization and Initialization of Diagonal State
Space Models (S4D), Gu et al., arXiv 2206.11893.

    dh/dt = A h + B u

"legs" keeps coefficients of exponentially-warped Legendre polynomials of all that came before, "legt" of Legendre polynomials of a window, "fout"
of a Fourier basis of a window (cosines at even places, sines after them; the sine of frequency 0 is there, and stays 0).
"""

import math
from typing import Literal, get_args

import torch

from transect.errors import InputError, near_matches

Hippo = Literal["legs", "legt", "fout"]
Diagonal = Literal["legs", "lin", "inv"]


def hippo(kind: Hippo, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """``A [n, n]`` and ``B [n]`` of a basis, in float64.

    Raises:
        InputError: no such basis, or n below 1.

    Examples:
        >>> hippo("legs", 2)[0]
        tensor([[-1.0000, -0.0000],
                [-1.7321, -2.0000]], dtype=torch.float64)
    """
    _check(kind, get_args(Hippo), n)
    places = torch.arange(n, dtype=torch.float64)
    if kind == "fout":
        speeds = torch.zeros(n, dtype=torch.float64)
        speeds[2::2] = torch.arange(1, (n - 1) // 2 + 1, dtype=torch.float64)  # cosines stand at even places, their sines after them
        turn = torch.diag(speeds[: n - 1], -1) - torch.diag(speeds[: n - 1], 1)
        b = torch.zeros(n, dtype=torch.float64)
        b[0::2] = math.sqrt(2)
        b[0] = 1
        return 2 * math.pi * turn - 2 * b[:, None] * b, 2 * b
    root = (2 * places + 1).sqrt()
    outer = root[:, None] * root
    if kind == "legs":
        return -(outer.tril(-1) + torch.diag(places + 1)), root
    signs = (-1.0) ** (places[:, None] - places).abs()
    return -outer * torch.where(places[:, None] < places, signs, 1.0), root


def diagonal_init(kind: Diagonal, n: int) -> torch.Tensor:
    """``[n]`` eigenvalues of a diagonal state matrix, one of each conjugate pair, in complex128; all have the real part -1/2.

    Args:
        kind: "legs", those of the normal part of "legs" of size 2 n; "lin", ``-1/2 + i pi j``; "inv", ``-1/2 + i (2 n / pi) (2 n / (2 j + 1) - 1)``.
        n: how many.

    Raises:
        InputError: no such kind, or n below 1.

    Examples:
        >>> diagonal_init("lin", 2)
        tensor([-0.5000+0.0000j, -0.5000+3.1416j], dtype=torch.complex128)
    """
    _check(kind, get_args(Diagonal), n)
    places = torch.arange(n, dtype=torch.float64)
    if kind == "lin":
        turns = math.pi * places
    elif kind == "inv":
        turns = 2 * n / math.pi * (2 * n / (2 * places + 1) - 1)
    else:
        a, _ = hippo("legs", 2 * n)
        p = (torch.arange(2 * n, dtype=torch.float64) + 0.5).sqrt()
        normal = a + p[:, None] * p  # skew but for -1/2 on its diagonal
        turns = torch.linalg.eigvalsh(-1j * (normal + 0.5 * torch.eye(2 * n, dtype=torch.float64)))[n:]
    return torch.complex(torch.full_like(turns, -0.5), turns)


def log_steps(count: int, *, low: float = 0.001, high: float = 0.1) -> torch.Tensor:
    """``[count]`` logarithms of time steps, drawn evenly between those of `low` and `high`; a state forgets after about 1 / step tokens.

    Raises:
        InputError: bounds that are not above 0 or do not rise.

    Examples:
        >>> bool((log_steps(5).exp() <= 0.1).all())
        True
    """
    if not 0 < low <= high:
        raise InputError(f"expected 0 < low <= high, got {low} and {high}.")
    return torch.empty(count).uniform_(math.log(low), math.log(high))


def _check(kind: str, known: tuple[str, ...], n: int) -> None:
    if kind not in known:
        raise InputError(f"expected a kind that exists, got {kind!r}; {near_matches(str(kind), known)}.")
    if n < 1:
        raise InputError(f"expected n of at least 1, got {n}.")
