"""The contract of a subspace, as a check that any can be put through, ours or not."""

import dataclasses
import tempfile
from pathlib import Path

import torch

from transect.errors import MismatchError
from transect.linear import Subspace
from transect.testing._assertions import must


def check_subspace(subspace: Subspace, *, atol: float = 1e-5) -> None:
    """Check that a subspace is what it says: an orthonormal basis, two projections that add up, frozen, and the same in a file.

    1. Purity: projecting leaves its input as it was; a batch is its rows.
    2. Algebra: the basis is orthonormal; projecting twice is projecting once; nothing of the subspace is left after removing it;
       the two parts add up to the whole; the complement has the other dimensions; angles with itself are 0, with its complement 90
       degrees.
    3. Edges: another width is a named error; a saved one loads back equal; it is frozen.

    Args:
        subspace: the object.
        atol: the largest absolute difference of numbers of the order of 1 that should be equal.

    Raises:
        AssertionError: a clause does not hold; the message says which.

    Examples:
        >>> check_subspace(Subspace(basis=torch.eye(4)[:2]))
    """
    dtype = torch.promote_types(subspace.basis.dtype, torch.float32)
    x = torch.randn(6, subspace.width, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    before = x.clone()
    inside, outside = subspace.project(x), subspace.remove(x)
    must(torch.equal(x, before), "subspace: projecting changed its input")
    _near(subspace.basis @ subspace.basis.T, torch.eye(subspace.rank, dtype=dtype), atol, "the basis is not orthonormal")
    _near(inside + outside, x, atol, "the two parts do not add up to the whole")
    _near(subspace.project(inside), inside, atol, "projecting twice is not projecting once")
    _near(subspace.coordinates(outside), torch.zeros(6, subspace.rank, dtype=dtype), atol, "something is left after removing it")
    _near(torch.stack([subspace.project(row) for row in x]), inside, atol, "a batch is projected differently from its rows")
    rest = subspace.complement()
    must(rest.rank == subspace.width - subspace.rank, "subspace: the complement has another rank than d - k")
    _near(rest.project(x), outside, atol, "the complement is not what is left")
    _near(subspace.angles(subspace), torch.zeros(subspace.rank), atol, "its angles with itself are not 0")
    if 0 < subspace.rank < subspace.width:
        must(bool((subspace.angles(rest) > torch.pi / 2 - atol).all()), "subspace: the complement is not at 90 degrees")
    try:
        subspace.basis = subspace.basis  # type: ignore[misc]
    except dataclasses.FrozenInstanceError:
        pass
    else:
        raise AssertionError("subspace: it is not frozen")
    try:
        subspace.project(x.new_zeros(2, subspace.width + 1))
    except MismatchError:
        pass
    else:
        raise AssertionError("subspace: it projects rows of another width")
    with tempfile.TemporaryDirectory() as folder:
        subspace.save(Path(folder) / "subspace.safetensors")
        must(Subspace.load(Path(folder) / "subspace.safetensors").equals(subspace), "subspace: a saved one loads back different")


def _near(one: torch.Tensor, other: torch.Tensor, atol: float, clause: str) -> None:
    off = float((one.double() - other.double()).abs().max()) if one.numel() else 0.0
    must(one.shape == other.shape and off <= atol, f"subspace: {clause} (off by {off:.1e})")
