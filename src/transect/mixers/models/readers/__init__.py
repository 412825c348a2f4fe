"""Checkpoints of transformers' models read into a stack."""

from transect.mixers.models.readers.read import read_checkpoint

__all__ = ["read_checkpoint"]
