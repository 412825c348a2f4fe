"""Latent dynamics that are linear, with a diagonal operator and actions as inputs: a whole horizon of predictions at once, and eigenvalues to look at.

Paper: Efficient Dynamics Modeling in Interactive Environments with Koopman Theory, Mondal, Panigrahi, Rajeswar, Siddiqi and Ravanbakhsh, arXiv 2306.11941.

    z_0 = encode(x_0),   z_{t+1} = lambda z_t + L u_t,   x_t = decode(z_t)         lambda = exp(-exp(nu) + i theta), by latent

Latents are complex, ``|lambda| <= 1`` whatever the parameters are, so predictions of bounded actions stay bounded and a gradient that comes back over H steps
is multiplied by ``lambda^H``. `transect.mixers.diagonal_ssm` computes the horizon in chunks of powers of lambda, or step by step; a Fourier transform, as the
paper has it, would let later actions into earlier predictions' last digits.

`KoopmanDynamics.fitted` is the closed form for linear encoders, dynamic mode decomposition with control (Proctor, Brunton and Kutz, 2016):
``x_{t+1} = A x_t + B u_t`` by least squares, and ``A = V Lambda V^-1``.
"""

import math
from dataclasses import dataclass
from typing import Self, final

import torch
from torch import nn

from transect.errors import InputError
from transect.mixers.algebra import Form
from transect.mixers.diagonal_ssm import diagonal_ssm


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Spectrum:
    """What latents do when nothing acts on them, the slowest to fade first.

    Args:
        eigenvalues: ``[M]``, complex.
        moduli: what a step multiplies a latent's size by, ``[M]``.
        frequencies: turns per step, ``[M]``, from -1/2 to 1/2.
        half_lives: steps until half is left, ``[M]``; infinite where nothing fades.
    """

    eigenvalues: torch.Tensor
    moduli: torch.Tensor
    frequencies: torch.Tensor
    half_lives: torch.Tensor


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class KoopmanLoss:
    """How far predictions of a horizon are from what happened, as means of squares; each a scalar.

    Args:
        prediction: of states.
        consistency: of latents from the encodings of the states that came.
        reconstruction: of decoded encodings from their states.
    """

    prediction: torch.Tensor
    consistency: torch.Tensor
    reconstruction: torch.Tensor

    def total(self, *, consistency: float = 1.0, reconstruction: float = 1.0) -> torch.Tensor:
        """The weighted sum, prediction with a weight of 1."""
        return self.prediction + consistency * self.consistency + reconstruction * self.reconstruction


@final
class KoopmanDynamics(nn.Module):
    """Latent linear dynamics with actions.

    Args:
        state_size: width D of states.
        action_size: width A of actions.
        latent_size: M, complex latents.
        encoder: ``[..., D]`` to ``[..., 2 M]``, real parts before imaginary ones; None for a linear map.
        action_encoder: ``[..., A]`` to ``[..., 2 M]``; None for a linear map without bias, the paper's L.
        decoder: ``[..., 2 M]`` to ``[..., D]``; None for a linear map.
        decay: exp(nu) at the start: a step keeps ``exp(-decay)`` of every latent; they differ in their frequencies, from 0 to half a turn.

    Raises:
        InputError: sizes below 1, or a decay that is not positive and finite.

    Examples:
        >>> model = KoopmanDynamics(state_size=3, action_size=2, latent_size=4)
        >>> model.predict(torch.zeros(5, 3), torch.zeros(5, 7, 2)).shape
        torch.Size([5, 7, 3])
    """

    def __init__(
        self,
        *,
        state_size: int,
        action_size: int,
        latent_size: int = 32,
        encoder: nn.Module | None = None,
        action_encoder: nn.Module | None = None,
        decoder: nn.Module | None = None,
        decay: float = 0.1,
    ) -> None:
        super().__init__()
        if min(state_size, action_size, latent_size) < 1 or not 0 < decay < math.inf:
            raise InputError(
                "expected a state_size, an action_size and a latent_size of at least 1 and a finite decay above 0, got "
                f"{state_size}, {action_size}, {latent_size} and {decay}."
            )
        self.state_size, self.action_size, self.latent_size = state_size, action_size, latent_size
        self.nu = nn.Parameter(torch.full((latent_size,), math.log(decay)))
        self.theta = nn.Parameter(math.pi * torch.arange(latent_size) / max(latent_size, 2))
        self.encoder = nn.Linear(state_size, 2 * latent_size) if encoder is None else encoder
        self.action_encoder = nn.Linear(action_size, 2 * latent_size, bias=False) if action_encoder is None else action_encoder
        self.decoder = nn.Linear(2 * latent_size, state_size) if decoder is None else decoder

    def encode(self, state: torch.Tensor) -> torch.Tensor:
        """Latents ``[..., M]``, complex, of states ``[..., D]``.

        Raises:
            InputError: states or latents of another width.
        """
        return self._latents(self.encoder, state, self.state_size, "states")

    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        """States ``[..., D]`` of latents ``[..., M]``.

        Raises:
            InputError: latents of another width.
        """
        if latents.shape[-1] != self.latent_size:
            raise InputError(f"expected latents [..., {self.latent_size}], got {list(latents.shape)}.")
        return self.decoder(torch.cat([latents.real, latents.imag], -1).to(self.theta.dtype))

    def step(self, latents: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Latents ``[..., M]`` one step later, after actions ``[..., A]``."""
        return self._log_a().exp() * latents + self._acted(action)

    def latents(self, state: torch.Tensor, actions: torch.Tensor, *, form: Form = "auto") -> torch.Tensor:
        """Latents after each of the actions.

        Args:
            state: the first state, ``[B, D]``.
            actions: ``[B, H, A]``.
            form: "chunk", "recurrent" (a loop), "parallel" (the whole horizon by one matrix of powers), "naive" (the sum), or "auto".

        Returns:
            ``[B, H, M]``, complex.

        Raises:
            InputError: shapes that do not belong together, or a form that does not exist.
        """
        if state.ndim != 2 or actions.ndim != 3 or len(state) != len(actions):
            raise InputError(f"expected a state [B, D] and actions [B, H, A], got {list(state.shape)} and {list(actions.shape)}.")
        return diagonal_ssm(self._acted(actions), self._log_a(), initial_state=self.encode(state), form=form)[0]

    def predict(self, state: torch.Tensor, actions: torch.Tensor, *, form: Form = "auto") -> torch.Tensor:
        """States ``[B, H, D]`` after each of the actions, the whole horizon at once; arguments as in `latents`."""
        return self.decode(self.latents(state, actions, form=form))

    def loss(self, states: torch.Tensor, actions: torch.Tensor, *, form: Form = "auto") -> KoopmanLoss:
        """Predictions of a whole horizon from its first state, beside what happened.

        Args:
            states: ``[B, H + 1, D]``.
            actions: ``[B, H, A]``, the one between each two states.
            form: as in `latents`.

        Raises:
            InputError: shapes that do not belong together, or no steps.
        """
        _check_paths(states, actions)
        latents, encoded = self.latents(states[:, 0], actions, form=form), self.encode(states)
        off = latents - encoded[:, 1:]
        return KoopmanLoss(
            prediction=(self.decode(latents) - states[:, 1:]).square().mean(),
            consistency=(off.real.square() + off.imag.square()).mean(),
            reconstruction=(self.decode(encoded) - states).square().mean(),
        )

    @torch.no_grad()
    def spectrum(self) -> Spectrum:
        """The eigenvalues of a step, and what they mean.

        Examples:
            >>> model = KoopmanDynamics(state_size=1, action_size=1, latent_size=2, decay=math.log(2))
            >>> model.spectrum().half_lives, model.spectrum().frequencies
            (tensor([1., 1.]), tensor([0.0000, 0.2500]))
        """
        log_a = self._log_a()
        log_a = log_a[(-log_a.real).sort(stable=True).indices]
        turns = log_a.imag / (2 * math.pi)
        return Spectrum(
            eigenvalues=log_a.exp(),
            moduli=log_a.real.exp(),
            frequencies=turns - turns.round(),
            half_lives=math.log(2) / -log_a.real,
        )

    @classmethod
    @torch.no_grad()
    def fitted(cls, states: torch.Tensor, actions: torch.Tensor) -> Self:
        """The dynamics of paths of a linear system, by least squares and one eigendecomposition; as many latents as states are wide.

        There is no constant: states are counted from where the system rests. Moduli above 1, which noise can give, become 1, unless states would grow more
        than tenfold along a path. Computed in float64 on the CPU; the model has the precision and the device of the states.

        Args:
            states: ``[B, H + 1, D]``.
            actions: ``[B, H, A]``.

        Raises:
            InputError: shapes that do not belong together, states that are not floating-point, numbers that are not finite, too few steps, actions that follow
                from the states, or a system that grows or has too few eigenvectors to be diagonal.

        Examples:
            >>> states = torch.tensor([[[1.0], [0.5], [1.25]], [[0.0], [2.0], [1.0]]])
            >>> actions = torch.tensor([[[0.0], [1.0]], [[2.0], [0.0]]])
            >>> KoopmanDynamics.fitted(states, actions).spectrum().moduli
            tensor([0.5000])
        """
        _check_paths(states, actions)
        _check_values(states, actions)
        kept = {"device": states.device, "dtype": states.dtype}
        states, actions = states.cpu().double(), actions.cpu().double()  # other devices have no such least squares, or no doubles
        wide = torch.cat([states[:, :-1], actions], -1).flatten(0, 1)
        if len(wide) < wide.shape[1]:
            raise InputError(f"expected at least {wide.shape[1]} steps for states and actions that are so wide, got {len(wide)}.")
        size = states.shape[-1]
        if _overlap(wide[:, :size], wide[:, size:]) > 1 - 1e-9:
            raise InputError(
                "expected actions that states do not determine, got some combination of actions that is always the same one of states, so that "
                "nothing tells their effects apart; vary the actions."
            )
        both = torch.linalg.lstsq(wide, states[:, 1:].flatten(0, 1), driver="gelsd").solution.mT
        values, vectors = torch.linalg.eig(both[:, :size])
        largest, steps = float(values.abs().max()), actions.shape[1]
        if steps * math.log(max(largest, 1)) > math.log(10):
            raise InputError(
                f"expected a system that does not grow, got an eigenvalue of modulus {largest:.4g}, more than tenfold in {steps} steps; latents "
                "here cannot grow."
            )
        if float(torch.linalg.cond(vectors)) > 1e6:
            raise InputError("expected a system whose eigenvectors span its states, got one that has too few of them.")
        inverse = torch.linalg.inv(vectors)
        acted = inverse @ both[:, size:].to(values.dtype)
        with torch.random.fork_rng(devices=[]):  # the random weights of a new model are not kept
            made = cls(state_size=size, action_size=actions.shape[-1], latent_size=size).to(**kept)
        if not (isinstance(made.encoder, nn.Linear) and isinstance(made.action_encoder, nn.Linear) and isinstance(made.decoder, nn.Linear)):
            raise TypeError("the maps of a new model are linear")
        decays = -values.abs().clamp(1e-12, 1 - 1e-12).log()
        made.nu.copy_(decays.log())
        made.theta.copy_(values.angle())
        made.encoder.weight.copy_(torch.cat([inverse.real, inverse.imag]))
        made.action_encoder.weight.copy_(torch.cat([acted.real, acted.imag]))
        made.decoder.weight.copy_(torch.cat([vectors.real, -vectors.imag], 1))
        for part in (made.encoder.bias, made.decoder.bias):
            part.zero_()
        return made

    def _log_a(self) -> torch.Tensor:
        wide = torch.promote_types(self.nu.dtype, torch.float32)
        return torch.complex(-self.nu.to(wide).exp(), self.theta.to(wide))

    def _acted(self, actions: torch.Tensor) -> torch.Tensor:
        return self._latents(self.action_encoder, actions, self.action_size, "actions")

    def _latents(self, encoder: nn.Module, given: torch.Tensor, size: int, what: str) -> torch.Tensor:
        if given.shape[-1] != size:
            raise InputError(f"expected {what} [..., {size}], got {list(given.shape)}.")
        made = encoder(given)
        if made.shape != (*given.shape[:-1], 2 * self.latent_size):
            raise InputError(f"expected an encoder of {what} to [..., {2 * self.latent_size}], got {list(made.shape)}.")
        real, imaginary = made.to(torch.promote_types(made.dtype, torch.float32)).chunk(2, -1)
        return torch.complex(real, imaginary)


def _check_paths(states: torch.Tensor, actions: torch.Tensor) -> None:
    if states.ndim != 3 or actions.ndim != 3 or states.shape[:2] != (len(actions), actions.shape[1] + 1):
        raise InputError(f"expected states [B, H + 1, D] and actions [B, H, A], got {list(states.shape)} and {list(actions.shape)}.")
    if 0 in (*actions.shape, states.shape[2]):
        raise InputError(
            f"expected no empty states or actions, got {list(states.shape)} and {list(actions.shape)}; without actions give zeros."
        )


def _check_values(states: torch.Tensor, actions: torch.Tensor) -> None:
    if not states.is_floating_point():
        raise InputError(f"expected states of floating-point numbers, got {states.dtype}.")
    for name, given in (("states", states), ("actions", actions)):
        bad = (~given.isfinite()).flatten(1).any(1).nonzero().flatten()
        if len(bad):
            raise InputError(
                f"expected finite {name}, got NaN or infinity in {len(bad)} of {len(given)} paths, first in path {int(bad[0])}."
            )


def _overlap(one: torch.Tensor, other: torch.Tensor) -> float:
    """The cosine of the smallest angle between what the columns of two matrices span; 1 where some combination is in both."""
    bases = []
    for columns in (one, other):
        left, sizes, _ = torch.linalg.svd(columns, full_matrices=False)
        bases.append(left[:, sizes > sizes.amax() * max(columns.shape) * torch.finfo(sizes.dtype).eps])
    cosines = torch.linalg.svdvals(bases[0].mT @ bases[1])
    return float(cosines.amax()) if len(cosines) else 0.0
