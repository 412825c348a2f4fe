"""`Direction`: a unit vector at a site."""

import dataclasses
import os

import torch

from transect.errors import InputError
from transect.linear.files import load_object, save_object
from transect.linear.origin import Origin
from transect.linear.readout import Readout


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Direction:
    """A unit vector ``[d]`` at a site.

    Args:
        vector: ``[d]``; scaled to length one.
        origin: where it lives and how it was made.

    Raises:
        InputError: the vector is zero, not finite, or not one-dimensional.

    Examples:
        >>> import torch
        >>> Direction(vector=torch.tensor([3.0, 4.0])).vector
        tensor([0.6000, 0.8000])
    """

    vector: torch.Tensor
    origin: Origin = dataclasses.field(default_factory=Origin)

    def __post_init__(self) -> None:
        if self.vector.ndim != 1:
            raise InputError(f"expected a vector [d], got {list(self.vector.shape)}.")
        norm = torch.linalg.vector_norm(self.vector)
        if not torch.isfinite(norm) or norm == 0:
            raise InputError("a direction needs a finite vector that is not zero; the fit that made it found nothing.")
        object.__setattr__(self, "vector", self.vector / norm)

    @classmethod
    def of(cls, readout: Readout, *, output: int = 0) -> "Direction":
        """The direction along which one output of a readout grows fastest."""
        return cls(vector=readout.weight[output], origin=readout.origin)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file with a JSON header, atomically."""
        save_object(path, kind="Direction", tensors={"vector": self.vector}, header={"origin": self.origin.to_json()})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Direction":
        """Read back what `save` wrote.

        Raises:
            StoreError: the file is missing, damaged or holds something else.
        """
        tensors, header = load_object(path, kind="Direction")
        return cls(vector=tensors["vector"], origin=Origin.from_json(header["origin"]))
