"""`Report`: everything that the JSON, the page, the pictures and the terminal show."""

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transect.errors import InputError, StoreError
from transect.measure import Verdict
from transect.report.codec import from_json, to_json
from transect.report.records import (
    Baseline,
    CaptureInfo,
    DataInfo,
    Environment,
    Histogram,
    MetricInfo,
    ModelInfo,
    ProbeScore,
    Record,
    Scores,
    Selected,
    SiteScore,
    Timing,
    TransferScore,
    WrongText,
)

SCHEMA = "transect.report/1"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Report(Record):
    """Everything a run found. Two reports are equal where their JSON is."""

    created: str
    """When, in ISO 8601 with the time zone."""
    transect: str
    """The version of transect."""
    command: tuple[str, ...]
    """The command line, or empty where the run was started from Python."""
    seed: int
    """The seed of everything random."""
    settings: Mapping[str, Any]
    """The settings of the run, plain JSON values."""
    environment: Environment
    """What the run ran on."""
    model: ModelInfo
    """The model that was read."""
    data: DataInfo
    """The tables."""
    capture: CaptureInfo
    """How the activations were read."""
    metric: MetricInfo
    """The metric that leads this report."""
    selected: Selected
    """The probe that was chosen."""
    test: Scores
    """What it scored on rows that were never used to choose."""
    by_site: tuple[SiteScore, ...]
    """The score at every site, from the shallowest to the deepest."""
    baselines: Mapping[str, Baseline]
    """By name: ``bag_of_words``, ``length``, ``shuffled_labels``, ``random_direction``, ``untrained``. One that was not run is missing."""
    verdict: Verdict
    """What it means."""
    leakage: Mapping[str, Any]
    """The leakage audit of the tables, made before any fit: ``severity`` (the worst) and ``findings``, each with ``check``, ``table``,
    ``severity`` (ok, warn or fail), ``sentence``, ``numbers`` and ``examples``."""
    timing: Timing
    """Where the time went."""
    probes_compared: tuple[ProbeScore, ...] = ()
    """Other fitters on the same rows."""
    transfer: tuple[TransferScore, ...] = ()
    """Every training table, test table and site."""
    score_histograms: tuple[Histogram, ...] = ()
    """How the scores are spread over each table."""
    most_wrong: tuple[WrongText, ...] = ()
    """The texts the probe got most wrong, the worst first within each table."""
    notes: tuple[str, ...] = ()
    """What else the reader should know, one sentence each."""
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The other files of the run, by what they are; paths relative to this one."""
    stress: str | None = None
    """The file of the stress test of this probe; null where there is none."""
    certificate: str | None = None
    """The file of the certificate of this probe; null where there is none."""
    schema: str = SCHEMA
    """The version of this format. A change that breaks readers changes the number."""

    def __post_init__(self) -> None:
        for name in ("settings", "leakage"):  # plain lists from here on, so that what is read back is equal
            object.__setattr__(self, name, to_json(getattr(self, name), path=name))
        names = [point.site for point in self.by_site]
        if self.selected.site not in names:
            raise InputError(f"the selected site {self.selected.site!r} is not among the sites of by_site: {names}.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Report) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_json(), sort_keys=True))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, the schema's name first.

        Raises:
            InputError: a number is NaN or infinite; the message names its path.
        """
        value = super().to_json()
        return {"schema": value.pop("schema"), **value}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Report":
        """The inverse of `to_json`.

        Raises:
            StoreError: another schema, or a field that is missing, unknown or of the wrong kind; names its path.
        """
        schema = value.get("schema") if isinstance(value, Mapping) else None
        if schema != SCHEMA:
            raise StoreError(
                f"expected a report of schema {SCHEMA!r}, got {schema!r}. Read it with the transect that wrote it, or make it again."
            )
        return from_json(cls, value)


def load_report(path: str | os.PathLike[str]) -> Report:
    """Read a ``report.json`` back; equal to the `Report` that was written.

    Args:
        path: the file, or the folder of the run.

    Raises:
        StoreError: there is no such file, it is not JSON, or not a report of this schema.
    """
    file = Path(path) / "report.json" if Path(path).is_dir() else Path(path)
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"could not read {file}: {error.strerror or error}. Give a folder that `transect probe` wrote.") from error
    except ValueError as error:
        raise StoreError(f"{file} is not readable JSON ({error}). It may be cut short; make it again.") from error
    return Report.from_json(value)
