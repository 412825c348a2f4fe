"""Capture: a model and text become activations, in memory or in a store on disk that survives being killed."""

from transect.capture.activations import Activations
from transect.capture.layout import is_store
from transect.capture.run import capture

__all__ = ["Activations", "capture", "is_store"]
