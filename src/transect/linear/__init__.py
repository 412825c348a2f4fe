"""The fitted objects: small, frozen, and alike whatever method made them."""

from transect.linear.direction import Direction
from transect.linear.origin import Origin
from transect.linear.readout import Readout
from transect.linear.subspace import Subspace

__all__ = ["Direction", "Origin", "Readout", "Subspace"]
