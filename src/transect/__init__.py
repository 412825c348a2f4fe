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
    from transect import measure, mixers, probes, testing
    from transect.capture.generated import capture_generated
    from transect.intervene import monitor
    from transect.study import certify, probe

__all__ = [
    "Activations",
    "Model",
    "Readout",
    "Table",
    "capture",
    "capture_generated",
    "certify",
    "errors",
    "load",
    "measure",
    "mixers",
    "monitor",
    "probe",
    "probes",
    "read_table",
    "testing",
    "untrained",
]


def __getattr__(name: str) -> Any:
    # These import scikit-learn, which costs more than everything else together; whoever never fits should not wait for it.
    if name == "probe":
        from transect.study import probe

        return probe
    if name == "capture_generated":
        from transect.capture.generated import capture_generated

        return capture_generated
    if name == "certify":
        from transect.study.certify import certify

        return certify
    if name == "monitor":
        from transect.intervene import monitor

        return monitor
    if name in __all__:
        return importlib.import_module(f"transect.{name}")
    raise AttributeError(f"module 'transect' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
