"""transect: read, test and trust the linear structure inside neural networks.

>>> import transect
>>> table = transect.read_table("cities")
>>> len(table) > 400
True

The pieces live in rooms: `transect.probes`, `transect.measure`, `transect.linear`, `transect.testing` and the others in README.
"""

import importlib
from typing import TYPE_CHECKING, Any

from transect import errors
from transect.capture import Activations, capture
from transect.data import Table, read_table
from transect.linear import Readout
from transect.models import Model, load, untrained

if TYPE_CHECKING:
    from transect import decide, measure, mixers, probes, testing
    from transect.capture.generated import capture_generated
    from transect.intervene import monitor
    from transect.study import probe, stress
    from transect.study.certify import certify

__all__ = [
    "Activations",
    "Model",
    "Readout",
    "Table",
    "capture",
    "capture_generated",
    "certify",
    "decide",
    "errors",
    "load",
    "measure",
    "mixers",
    "monitor",
    "probe",
    "probes",
    "read_table",
    "stress",
    "testing",
    "untrained",
]


_LAZY = {
    "capture_generated": "transect.capture.generated",
    "certify": "transect.study.certify",
    "monitor": "transect.intervene",
    "probe": "transect.study",
    "stress": "transect.study",
}
"""Calls whose modules import scikit-learn or transformers, which cost more than everything else together; whoever never needs them
should not wait for them."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in __all__:
        return importlib.import_module(f"transect.{name}")
    raise AttributeError(f"module 'transect' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
