"""One factorisation per site, shared by every problem that is fitted there.

``(X - mean) / scale = Z V'`` with orthonormal ``V``, so that ``Z'Z`` is diagonal. An L2 penalty does not see the rotation,
hence a fit on ``Z`` is the fit on ``X``; in the rotated coordinates the second derivative of every problem is close to a
diagonal matrix, which makes it easy to invert, whatever the folds, labels or strengths.
"""

import dataclasses
import functools

import torch


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Rotation:
    """Activations ``X [n, d]`` in the coordinates in which they are uncorrelated.

    Args:
        z: ``[n, r]`` rotated activations, in the working precision (float64 wherever the device has it).
        z_low: the same in float32, for products that only steer the solver.
        spectrum: ``[r]`` the diagonal of ``Z'Z``.
        basis: ``[d, r]`` orthonormal columns.
        mean: ``[d]`` what was taken from every row.
        scale: the number by which every entry was then divided.
    """

    z: torch.Tensor
    z_low: torch.Tensor
    spectrum: torch.Tensor
    basis: torch.Tensor
    mean: torch.Tensor
    scale: float

    @functools.cached_property
    def squares(self) -> torch.Tensor:
        """``[n, r]`` the squares of ``z_low``."""
        return self.z_low.square()

    @classmethod
    def of(cls, activations: torch.Tensor, weight: torch.Tensor | None = None) -> "Rotation":
        """Factorise activations ``[n, d]``; ``weight [n]`` weighs the rows in the mean and the scale.

        The scale is the root mean square of all centred entries, or 1 where nothing varies.
        """
        working = working_dtype(activations.device)
        x = activations.to(working)
        share = torch.full((len(x),), 1 / len(x), dtype=working, device=x.device) if weight is None else (weight / weight.sum()).to(working)
        mean = share @ x
        # A constant column is zero after centring, not the rounding error of its mean: at a site where nothing varies, the scale
        # would blow that error up to the size of a signal.
        x = torch.where((x == x[:1]).all(0), 0, x - mean)
        scale = float((share @ x.square()).mean().sqrt()) or 1.0
        x /= scale
        basis, z = _rotate(x, share)
        return cls(z=z, z_low=z.to(torch.float32), spectrum=z.square().sum(0), basis=basis, mean=mean, scale=scale)

    def to_raw(self, weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights ``[r, m]`` and biases ``[m]`` for ``z`` as weights ``[m, d]`` and biases ``[m]`` for the activations themselves."""
        raw = weight.T @ self.basis.T / self.scale
        return raw, bias - raw @ self.mean


def working_dtype(device: torch.device) -> torch.dtype:
    """The precision in which fits are computed: float64, or float32 on a device that has nothing wider."""
    return torch.float32 if device.type == "mps" else torch.float64


def _rotate(x: torch.Tensor, share: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Basis ``[d, r]`` and ``x @ basis``, r = min(n, d)."""
    n, d = x.shape
    if n > d:
        basis = _eigenvectors((x * share.unsqueeze(-1)).T @ x)
        return basis, x @ basis
    # Through an orthonormal basis of the rows: dividing X'U by small singular values would lose orthogonality.
    rows, triangle = torch.linalg.qr(x.T)
    turn = _eigenvectors((triangle * share) @ triangle.T)
    return rows @ turn, triangle.T @ turn


def _eigenvectors(symmetric: torch.Tensor) -> torch.Tensor:
    if symmetric.device.type == "mps":  # has no eigh; the matrix is small, and moved for this one step
        return torch.linalg.eigh(symmetric.cpu()).eigenvectors.to(symmetric.device)
    return torch.linalg.eigh(symmetric).eigenvectors
