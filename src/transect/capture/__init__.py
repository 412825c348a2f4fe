"""Capture: a model and text become activations, in memory or in a store on disk that survives being killed."""

from transect.capture.activations import Activations
from transect.capture.layout import is_store
from transect.capture.outputs import NextToken, TokenLosses, next_token, token_losses
from transect.capture.run import capture

__all__ = ["Activations", "NextToken", "TokenLosses", "capture", "is_store", "next_token", "token_losses"]
