"""A sequence too long for one machine, divided among several: exact outputs and gradients, and messages whose size does not depend on it."""

from transect.mixers.parallelism.attention import gathered_attention
from transect.mixers.parallelism.lasp import ring
from transect.mixers.parallelism.lasp2 import gathered
from transect.mixers.parallelism.traffic import Traffic

__all__ = ["Traffic", "gathered", "gathered_attention", "ring"]
