"""State space layers that do not depend on their input: S4D, S5 and LRU.

Papers: S4D, Gu et al., arXiv 2206.11893; S5, Smith et al., arXiv 2208.04933; Resurrecting Recurrent Neural Networks for Long Sequences (LRU), Orvieto et al.,
arXiv 2303.06349.

    h_t = a h_{t-1} + b u_t,   y_t = Re(c h_t) + d u_t,   output = W_1 gelu(y) * sigmoid(W_2 gelu(y))

S4D has states for each channel, which is a convolution of each by itself (`transect.mixers.diagonal_convolution`); S5 and LRU have one set for all. a and b
follow from continuous time, ``a = exp(lambda dt)``, but in LRU.
"""

import math
from abc import ABC, abstractmethod
from typing import Literal, final

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.algebra import Form
from transect.mixers.diagonal_convolution import diagonal_convolution
from transect.mixers.diagonal_ssm import diagonal_ssm
from transect.mixers.hippo import Diagonal, diagonal_init, log_steps
from transect.mixers.layers.base import Inside, Mixed, Past, SequenceLayer
from transect.mixers.layers.packing import Packing


class StateSpace(SequenceLayer, ABC):
    """What the three share.

    Args:
        hidden_size: the width of inputs and outputs.
        state_size: complex states, for each channel or for all.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes below 1.
    """

    def __init__(self, *, hidden_size: int, state_size: int, layer_idx: int) -> None:
        super().__init__(hidden_size=hidden_size, layer_idx=layer_idx)
        if state_size < 1:
            raise InputError(f"expected a state_size of at least 1, got {state_size}.")
        self.state_size = state_size
        self.D = nn.Parameter(torch.randn(hidden_size))
        self.out_proj = nn.Linear(hidden_size, 2 * hidden_size)

    @abstractmethod
    def transitions(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Logarithms of the transitions and what multiplies inputs, both complex."""

    @abstractmethod
    def respond(
        self, u: torch.Tensor, *, state: torch.Tensor | None, bounds: tuple[int, ...] | None, form: Form
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What the states say ``[B, T, hidden_size]``, from inputs of that shape and the state before them, and the states ``[N, S]`` after them."""

    def mix(self, x: torch.Tensor, *, past: Past, packing: Packing, form: Form) -> Mixed:
        """Respond, skip, and gate."""
        u = _wide(x)
        held = past.parts.get("state")
        start = None if held is None else torch.view_as_complex(held)
        said, state = self.respond(u, state=start, bounds=packing.bounds, form=form)
        o = (said + _wide(self.D) * u).to(x.dtype)
        one, two = self.out_proj(functional.gelu(o)).chunk(2, -1)
        inside = Inside(
            inputs={"v": x[:, :, None]}, o=o[:, :, None], initial_state=None, final_state=None, cu_seqlens=packing.bounds, op=None
        )
        return Mixed(y=one * two.sigmoid(), parts={"state": torch.view_as_real(state)}, inside=inside)


def _wide(x: torch.Tensor) -> torch.Tensor:
    """In 32 bits at least; before an exponential, not after it."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _complex(x: torch.Tensor) -> torch.Tensor:
    """``[..., 2]`` real as complex."""
    return torch.view_as_complex(_wide(x).contiguous())


def _rates(log_real: torch.Tensor, imaginary: torch.Tensor) -> torch.Tensor:
    """What states turn and fade by in continuous time."""
    return torch.complex(-_wide(log_real).exp(), _wide(imaginary))


def _dense(
    u: torch.Tensor,
    log_a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    *,
    state: torch.Tensor | None,
    bounds: tuple[int, ...] | None,
    form: Form,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``Re(C h)`` of one set of states for all channels, ``h_t = a h_{t-1} + B u_t``, and the last states."""
    h, last = diagonal_ssm(u.to(b.dtype) @ b.mT, log_a, initial_state=state, bounds=bounds, form=form)
    return (h @ c.mT).real, last


@final
class S4D(StateSpace):
    """S4D: diagonal states for each channel. ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packing.

    Args:
        hidden_size: the width of inputs and outputs.
        state_size: complex states of each channel, each standing for a conjugate pair.
        init: how eigenvalues begin, as in `transect.mixers.hippo.diagonal_init`.
        discretization: "zoh" (inputs hold between tokens) or "bilinear".
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes below 1, or an init or discretization that does not exist.

    Examples:
        >>> S4D(hidden_size=4, state_size=2)(torch.ones(1, 3, 4)).shape
        torch.Size([1, 3, 4])
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        state_size: int = 16,
        init: Diagonal = "legs",
        discretization: Literal["zoh", "bilinear"] = "zoh",
        layer_idx: int = 0,
    ) -> None:
        super().__init__(hidden_size=hidden_size, state_size=state_size, layer_idx=layer_idx)
        if discretization not in {"zoh", "bilinear"}:
            raise InputError(f"expected discretization zoh or bilinear, got {discretization!r}.")
        self.discretization = discretization
        rates = diagonal_init(init, state_size)
        self.log_real = nn.Parameter((-rates.real).log().float().repeat(hidden_size, 1))
        self.imaginary = nn.Parameter(rates.imag.float().repeat(hidden_size, 1))
        self.log_dt = nn.Parameter(log_steps(hidden_size))
        self.C = nn.Parameter(torch.randn(hidden_size, state_size, 2) * 0.5**0.5)

    def transitions(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Continuous time, one step at a time."""
        rates = _rates(self.log_real, self.imaginary)
        step = _wide(self.log_dt).exp()[:, None]
        if self.discretization == "zoh":
            return rates * step, torch.expm1((rates * step).to(rates.dtype)) / rates
        below = 1 - rates * step / 2
        return ((1 + rates * step / 2) / below).log(), step / below

    def respond(
        self, u: torch.Tensor, *, state: torch.Tensor | None, bounds: tuple[int, ...] | None, form: Form
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Each channel by its own states, whose inputs are weighted when they are read; twice the real part for the conjugates."""
        log_a, b = self.transitions()
        return diagonal_convolution(u, log_a, 2 * b * _complex(self.C), initial_state=state, bounds=bounds, form=form)


@final
class S5(StateSpace):
    """S5: one set of diagonal states for all channels. ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packing.

    Args:
        hidden_size: the width of inputs and outputs.
        state_size: complex states, each standing for a conjugate pair.
        init: how eigenvalues begin, as in `transect.mixers.hippo.diagonal_init`.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes below 1, or an init that does not exist.

    Examples:
        >>> S5(hidden_size=4, state_size=2)(torch.ones(1, 3, 4)).shape
        torch.Size([1, 3, 4])
    """

    def __init__(self, *, hidden_size: int, state_size: int = 32, init: Diagonal = "legs", layer_idx: int = 0) -> None:
        super().__init__(hidden_size=hidden_size, state_size=state_size, layer_idx=layer_idx)
        rates = diagonal_init(init, state_size)
        self.log_real, self.imaginary = nn.Parameter((-rates.real).log().float()), nn.Parameter(rates.imag.float())
        self.log_dt = nn.Parameter(log_steps(state_size))
        self.B = nn.Parameter(torch.randn(state_size, hidden_size, 2) * (2 * hidden_size) ** -0.5)
        self.C = nn.Parameter(torch.randn(hidden_size, state_size, 2) * (2 * state_size) ** -0.5)

    def transitions(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Continuous time, inputs held between tokens."""
        rates = _rates(self.log_real, self.imaginary)
        log_a = rates * _wide(self.log_dt).exp()
        return log_a, (torch.expm1(log_a) / rates)[:, None] * _complex(self.B)

    def respond(
        self, u: torch.Tensor, *, state: torch.Tensor | None, bounds: tuple[int, ...] | None, form: Form
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """All channels to all states and back, twice the real part for the conjugates."""
        log_a, b = self.transitions()
        return _dense(u, log_a, b, 2 * _complex(self.C), state=state, bounds=bounds, form=form)


@final
class LRU(StateSpace):
    """LRU: one set of diagonal states, on a ring in the unit disc. ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches and masks.

    Args:
        hidden_size: the width of inputs and outputs.
        state_size: complex states.
        r_min: the ring's inner radius.
        r_max: its outer radius, at most 1.
        max_phase: the largest angle.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes below 1, or radii that do not rise within 0 to 1.

    Examples:
        >>> LRU(hidden_size=4, state_size=2)(torch.ones(1, 3, 4)).shape
        torch.Size([1, 3, 4])
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        state_size: int = 32,
        r_min: float = 0.4,
        r_max: float = 0.99,
        max_phase: float = 2 * math.pi,
        layer_idx: int = 0,
    ) -> None:
        super().__init__(hidden_size=hidden_size, state_size=state_size, layer_idx=layer_idx)
        if not 0 <= r_min < r_max <= 1 or not max_phase > 0:
            raise InputError(f"expected 0 <= r_min < r_max <= 1 and a max_phase above 0, got {r_min}, {r_max} and {max_phase}.")
        radius = (torch.rand(state_size) * (r_max**2 - r_min**2) + r_min**2).clamp(1e-6, 1 - 1e-6)
        self.nu_log = nn.Parameter((-0.5 * radius.log()).log())
        self.theta_log = nn.Parameter((max_phase * torch.rand(state_size).clamp_min(1e-6)).log())
        self.B = nn.Parameter(torch.randn(state_size, hidden_size, 2) * (2 * hidden_size) ** -0.5)
        self.C = nn.Parameter(torch.randn(hidden_size, state_size, 2) * state_size**-0.5)

    def transitions(self) -> tuple[torch.Tensor, torch.Tensor]:
        """On the ring; inputs are weighted so that every state has about the size of its input."""
        log_a = torch.complex(-_wide(self.nu_log).exp(), _wide(self.theta_log).exp())
        gamma = (-torch.expm1(2 * log_a.real)).sqrt()
        return log_a, gamma[:, None] * _complex(self.B)

    def respond(
        self, u: torch.Tensor, *, state: torch.Tensor | None, bounds: tuple[int, ...] | None, form: Form
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """All channels to all states and back."""
        log_a, b = self.transitions()
        return _dense(u, log_a, b, _complex(self.C), state=state, bounds=bounds, form=form)
