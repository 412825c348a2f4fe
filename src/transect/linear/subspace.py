r"""`Subspace`: an orthonormal basis at a site.

With orthonormal rows ``B [k, d]`` the part of an activation inside the subspace is ``x B'B`` and what is left of it ``x (I - B'B)``:
both are products with thin matrices, and no ``d x d`` matrix is formed. Principal angles come from the singular values of
``B1 B2'`` where they are wide and of what ``B2`` has outside ``B1`` where they are narrow, for a cosine near 1 has lost the digits
of its angle (Bjorck and Golub 1973; Knyazev and Argentati 2002).
"""

import dataclasses
import os

import torch

from transect.errors import InputError, MismatchError
from transect.linear.files import load_object, save_object
from transect.linear.origin import Origin
from transect.linear.readout import Readout


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Subspace:
    """The span of ``k`` vectors of width ``d`` at a site, kept as an orthonormal basis.

    Args:
        basis: ``[k, d]``, k from 0 to d. Rows that are orthonormal are kept as they are; others are made so in their order, so that the
            first rows span what they spanned. At least float32 is kept.
        origin: where it lives and how it was made.

    Raises:
        InputError: not ``[k, d]``, not finite, or rows that depend on each other (the first such row is named).

    Examples:
        >>> import torch
        >>> plane = Subspace(basis=torch.tensor([[2.0, 0.0, 0.0], [1.0, 3.0, 0.0]]))
        >>> plane.basis
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
        >>> plane.remove(torch.tensor([5.0, 6.0, 7.0]))
        tensor([0., 0., 7.])
    """

    basis: torch.Tensor
    origin: Origin = dataclasses.field(default_factory=Origin)

    def __post_init__(self) -> None:
        if self.basis.ndim != 2 or self.basis.shape[1] == 0:
            raise InputError(f"expected a basis [k, d] with at least one column, got {list(self.basis.shape)}.")
        rank, width = self.basis.shape
        if rank > width:
            raise InputError(f"{rank} vectors of width {width} depend on each other; give at most {width}.")
        if not torch.isfinite(self.basis).all():
            bad = int(torch.nonzero(~torch.isfinite(self.basis).all(1))[0])
            raise InputError(f"expected a finite basis, got NaN or infinity in row {bad}; the fit that made it diverged.")
        kept = self.basis.detach().to(torch.promote_types(self.basis.dtype, torch.float32))
        object.__setattr__(self, "basis", kept if _is_orthonormal(kept) else _orthonormal(kept))

    @property
    def rank(self) -> int:
        """How many dimensions k it has."""
        return self.basis.shape[0]

    @property
    def width(self) -> int:
        """The width d of the activations that it divides."""
        return self.basis.shape[1]

    @classmethod
    def of(cls, readout: Readout) -> "Subspace":
        """What a readout ``[k, d]`` reads: the span of its rows.

        Raises:
            InputError: rows that depend on each other.

        Examples:
            >>> Subspace.of(Readout(weight=torch.tensor([[0.0, -2.0]]), bias=torch.zeros(1))).basis
            tensor([[ 0., -1.]])
        """
        return cls(basis=readout.weight, origin=readout.origin)

    def coordinates(self, activations: torch.Tensor) -> torch.Tensor:
        """Where activations ``[..., d]`` lie along the basis, ``[..., k]``; in the wider of the two dtypes, on their device.

        Raises:
            MismatchError: the activations have another width.

        Examples:
            >>> Subspace(basis=torch.tensor([[0.0, 1.0]])).coordinates(torch.tensor([[3.0, 4.0]]))
            tensor([[4.]])
        """
        return self._wide(activations) @ self._like(activations).T

    def project(self, activations: torch.Tensor) -> torch.Tensor:
        """The part of activations ``[..., d]`` inside the subspace, ``[..., d]``.

        Raises:
            MismatchError: the activations have another width.

        Examples:
            >>> Subspace(basis=torch.tensor([[0.0, 1.0]])).project(torch.tensor([[3.0, 4.0]]))
            tensor([[0., 4.]])
        """
        return self.coordinates(activations) @ self._like(activations)

    def remove(self, activations: torch.Tensor) -> torch.Tensor:
        """What is left of activations ``[..., d]`` outside the subspace, ``[..., d]``.

        Raises:
            MismatchError: the activations have another width.

        Examples:
            >>> Subspace(basis=torch.tensor([[0.0, 1.0]])).remove(torch.tensor([[3.0, 4.0]]))
            tensor([[3., 0.]])
        """
        return self._wide(activations) - self.project(activations)

    def complement(self) -> "Subspace":
        """Everything orthogonal to it, of rank d - k.

        Examples:
            >>> Subspace(basis=torch.eye(5)[:2]).complement().rank
            3
        """
        # The last columns of a complete factor are orthogonal to the first k, which span the basis.
        whole = torch.linalg.qr(self.basis.T, mode="complete").Q
        return dataclasses.replace(self, basis=whole[:, self.rank :].T.contiguous())

    def angles(self, other: "Subspace") -> torch.Tensor:
        """Principal angles with another subspace, in radians from the narrowest, ``[min(k, k of the other)]`` in float64.

        Raises:
            MismatchError: another width.

        Examples:
            >>> line, plane = Subspace(basis=torch.tensor([[1.0, 1.0, 0.0]])), Subspace(basis=torch.eye(3)[1:])
            >>> torch.rad2deg(line.angles(plane)).round()
            tensor([45.], dtype=torch.float64)
        """
        if other.width != self.width:
            raise MismatchError(f"both subspaces must have one width, got {self.width} and {other.width}; another site or model?")
        one, two = (self, other) if self.rank >= other.rank else (other, self)
        first, second = one.basis.cpu().double(), two.basis.cpu().double()
        if two.rank == 0:
            return first.new_zeros(0)
        inside = second @ first.T
        cosines = torch.linalg.svdvals(inside).clamp(max=1)
        sines = torch.linalg.svdvals(second - inside @ first).clamp(max=1).flip(0)
        return torch.where(cosines.square() > 0.5, torch.arcsin(sines), torch.arccos(cosines))

    def equals(self, other: object) -> bool:
        """True where every number of the basis and every word of the origin is the same.

        Examples:
            >>> Subspace(basis=torch.eye(2)[:1]).equals(Subspace(basis=torch.eye(2)[1:]))
            False
        """
        return isinstance(other, Subspace) and self.origin == other.origin and torch.equal(self.basis, other.basis)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file with a JSON header, atomically.

        Raises:
            StoreError: the file cannot be written.
        """
        save_object(path, kind="Subspace", tensors={"basis": self.basis}, header={"origin": self.origin.to_json()})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Subspace":
        """Read back what `save` wrote.

        Raises:
            StoreError: the file is missing, damaged or holds something else.
        """
        tensors, header = load_object(path, kind="Subspace")
        return cls(basis=tensors["basis"], origin=Origin.from_json(header["origin"]))

    def _wide(self, activations: torch.Tensor) -> torch.Tensor:
        if activations.shape[-1:] != (self.width,):
            shape = list(activations.shape)
            raise MismatchError(f"this subspace divides width {self.width}, got activations of shape {shape}; another site or model?")
        return activations.to(torch.promote_types(activations.dtype, self.basis.dtype))

    def _like(self, activations: torch.Tensor) -> torch.Tensor:
        return self.basis.to(activations.device, torch.promote_types(activations.dtype, self.basis.dtype))


def _is_orthonormal(basis: torch.Tensor) -> bool:
    one = torch.eye(len(basis), dtype=basis.dtype, device=basis.device)
    return len(basis) == 0 or float((basis @ basis.T - one).abs().max()) <= 16 * torch.finfo(basis.dtype).eps


def _orthonormal(basis: torch.Tensor) -> torch.Tensor:
    """Gram and Schmidt's rows, by a QR factorisation in float64 whose signs are turned back."""
    wide = basis.cpu().double()
    length = torch.linalg.vector_norm(wide, dim=1)
    q, r = torch.linalg.qr((wide / length.clamp_min(torch.finfo(wide.dtype).tiny).unsqueeze(1)).T)
    own = r.diagonal()
    # Below this share of its length a row is the rounding error of the rows before it.
    lost = (own.abs() <= 1e2 * torch.finfo(basis.dtype).eps) | (length == 0)
    if lost.any():
        row = int(torch.nonzero(lost)[0])
        raise InputError(f"row {row} of the basis is zero or depends on the rows before it; leave it out.")
    return ((q * own.sign()).T.contiguous() + 0.0).to(basis.device, basis.dtype)  # no minus zeros
