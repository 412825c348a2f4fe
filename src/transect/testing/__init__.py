"""Shipped checks of the contracts, and tiny random models to run them on; for our methods and for other people's."""

from transect.testing.capture_checks import check_capture
from transect.testing.fitter_checks import all_fitters, check_fitter, check_readout
from transect.testing.subspace_checks import check_subspace
from transect.testing.tiny import FAMILIES, tiny, tiny_chat_tokenizer, tiny_tokenizer

__all__ = [
    "FAMILIES",
    "all_fitters",
    "check_capture",
    "check_fitter",
    "check_readout",
    "check_subspace",
    "tiny",
    "tiny_chat_tokenizer",
    "tiny_tokenizer",
]
