"""Models: a hub id, a folder, a GGUF file, the demo model or a live module, with tokenizer, structure and fingerprint."""

from transect.models.encode import Encoded, encode
from transect.models.load import load
from transect.models.model import Model
from transect.models.untrained import untrained

__all__ = ["Encoded", "Model", "encode", "load", "untrained"]
