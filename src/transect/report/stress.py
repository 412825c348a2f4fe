"""The records of a stress test: every way in which one probe was tried to be fooled, as plain values.

A finding is a list of points with intervals beside one reference, a status and a sentence; the page, the picture and the
terminal draw every finding the same way.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from transect.errors import InputError, StoreError
from transect.measure import Estimate
from transect.report.codec import from_json
from transect.report.records import Record, Timing

STRESS_SCHEMA = "transect.stress/1"
StressStatus = Literal["holds", "weakens", "fooled", "unclear"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class StressPoint(Record):
    """One measurement of a finding."""

    name: str
    """What was measured, for example the name of a rewriting."""
    estimate: Estimate
    """The number."""
    series: str = ""
    """Which of several curves it belongs to, for example ``refit with other styles``; empty where there is one."""
    difference: Estimate | None = None
    """The number minus the reference, on the same rows; its interval holds for all points of the finding at once. Null where pairing makes no sense."""
    p: float | None = None
    """A p value, corrected for all points of the finding; null where none was made."""
    n: int | None = None
    """How many rows are behind it."""
    n_excluded: int = 0
    """Rows left out; `note` says why."""
    note: str = ""
    """What else to know about it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StressFinding(Record):
    """One way to be fooled."""

    name: str
    """Its name, for example ``style``."""
    question: str
    """What it asks, for people."""
    measure: str
    """What the numbers are, for example ``AUROC``."""
    points: tuple[StressPoint, ...]
    """The measurements."""
    status: StressStatus
    """``holds``: the probe passed. ``weakens``: it lost something. ``fooled``: it no longer reads the label. ``unclear``: the data cannot say."""
    sentence: str
    """What was found, in one or two sentences."""
    rule: str
    """The rule that made the status."""
    source: str = ""
    """The paper or definition that this follows."""
    reference: Estimate | None = None
    """What the points are compared with; null where there is nothing."""
    reference_name: str = ""
    """What the reference is."""
    chance: float | None = None
    """What guessing would score; null where there is no such number."""
    low: float = 0.0
    """The left end of the scale that draws it."""
    high: float = 1.0
    """The right end."""

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise InputError(f"a scale needs low < high, got {self.low} and {self.high} in {self.name!r}.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NotTried(Record):
    """A test that could not be made."""

    name: str
    """Its name."""
    reason: str
    """Why, and what it would take."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class StressReport(Record):
    """Everything a stress test found. Two are equal where their JSON is."""

    created: str
    """When, in ISO 8601 with the time zone."""
    transect: str
    """The version of transect."""
    model: str
    """The name of the model."""
    fingerprint: str
    """Its fingerprint."""
    table: str
    """The table the probe learnt from."""
    probe: str
    """The fitter that made the probe."""
    site: str
    """Where it reads."""
    home: Estimate
    """What the probe scores on its own held-out rows."""
    measure: str
    """The metric that leads."""
    findings: tuple[StressFinding, ...]
    """What was tried."""
    not_tried: tuple[NotTried, ...]
    """What could not be tried, and why."""
    settings: Mapping[str, Any]
    """The settings of the stress test, plain JSON values."""
    timing: Timing
    """Where the time went; ``captures`` is the model running, ``statistics`` is everything else."""
    notes: tuple[str, ...] = ()
    """What else the reader should know."""
    schema: str = STRESS_SCHEMA
    """The version of this format."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StressReport) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_json(), sort_keys=True))

    @property
    def worst(self) -> StressStatus:
        """The worst status of any finding; ``unclear`` where nothing was found."""
        for status in ("fooled", "weakens", "unclear", "holds"):
            if any(finding.status == status for finding in self.findings):
                return status
        return "unclear"

    def finding(self, name: str) -> StressFinding:
        """The finding of this name.

        Raises:
            InputError: there is none; says why where it was not tried.
        """
        for finding in self.findings:
            if finding.name == name:
                return finding
        why = next((f" It was not tried: {skipped.reason}" for skipped in self.not_tried if skipped.name == name), "")
        raise InputError(f"no finding {name!r} among {[finding.name for finding in self.findings]}.{why}")

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "StressReport":
        """The inverse of `to_json`.

        Raises:
            StoreError: another schema, or a field that is missing, unknown or of the wrong kind.
        """
        schema = value.get("schema") if isinstance(value, Mapping) else None
        if schema != STRESS_SCHEMA:
            raise StoreError(f"expected a stress test of schema {STRESS_SCHEMA!r}, got {schema!r}. Make it again with transect stress.")
        return from_json(cls, value)


def load_stress(path: str | os.PathLike[str]) -> StressReport:
    """Read a ``stress.json`` back; equal to the `StressReport` that was written.

    Args:
        path: the file, or the folder of the run.

    Raises:
        StoreError: there is no such file, it is not JSON, or not a stress test of this schema.
    """
    file = Path(path) / "stress.json" if Path(path).is_dir() else Path(path)
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"could not read {file}: {error.strerror or error}. Run transect stress on that folder first.") from error
    except ValueError as error:
        raise StoreError(f"{file} is not readable JSON ({error}). It may be cut short; make it again.") from error
    return StressReport.from_json(value)
