"""Shipped checks of the contracts, and tiny random models to run them on; for our methods and for other people's."""

from transect.testing.capture_checks import check_capture
from transect.testing.tiny import FAMILIES, tiny, tiny_chat_tokenizer, tiny_tokenizer

__all__ = ["FAMILIES", "check_capture", "tiny", "tiny_chat_tokenizer", "tiny_tokenizer"]
