"""The parts of a report, as frozen records; `transect.report.report` puts them together.

Records hold plain values only: strings, numbers, tuples, mappings, other records. The string under each field is its
documentation: the JSON Schema and ``docs/report-schema.md`` are made from it.

Two metrics lead a report, never both: ``auroc`` for classes (for more than two classes, the mean over classes of one
class against the rest) and ``spearman`` for numbers. The field of the other is absent.
"""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from transect.errors import InputError
from transect.measure import Estimate
from transect.report.codec import ABSENT, to_json

Kind = Literal["binary", "multiclass", "number"]
MetricName = Literal["auroc", "spearman"]
TransferStatus = Literal["yes", "no", "inverted", "unclear"]
Label = str | bool | int | float
IfApplies = Annotated[Estimate | None, ABSENT]


class Record:
    """What every record can do."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values.

        Raises:
            InputError: a number is NaN or infinite; the message names its path.
        """
        return to_json(self, path=type(self).__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Environment(Record):
    """What the run ran on."""

    python: str
    """Python's version."""
    platform: str
    """The operating system and processor, as Python names them."""
    torch: str
    """The version of torch."""
    transformers: str
    """The version of transformers."""
    device: str
    """The device that ran the model, for example ``cpu`` or ``cuda:0 (NVIDIA H200)``."""
    threads: int
    """How many CPU threads torch used."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelInfo(Record):
    """The model that was read."""

    name: str
    """What it was loaded from."""
    fingerprint: str
    """The hash of its configuration, weights and tokenizer."""
    dtype: str
    """The type of its weights, for example ``float32``."""
    device: str
    """Where its weights were."""
    width: int | None = None
    """The width d of its residual stream; null where it has none."""
    n_layers: int | None = None
    """How many blocks it has; null where it has no blocks."""
    parameters: int | None = None
    """How many parameters it has."""
    source: str | None = None
    """What loads it again: a whole path, a hub id, or ``demo``; null where it was a live module."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableInfo(Record):
    """One table of labelled text."""

    name: str
    """Its name, as in `transfer` and `verdict.transfers`."""
    source: str
    """Where it came from: a path, or the name of a built-in set."""
    digest: str
    """The hash of its content."""
    n: int
    """How many rows it has."""
    n_groups: int
    """How many groups its rows form; rows that share a group, or are duplicates, never straddle a split."""
    kind: Kind
    """What its labels are."""
    classes: tuple[Label, ...] | None = None
    """The labels; two classes are (negative, positive). Null for numbers."""
    counts: tuple[int, ...] | None = None
    """How many rows each class has, in the order of `classes`. Null for numbers."""
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Which column played which role, for example ``{"text": "statement"}``."""
    notes: tuple[str, ...] = ()
    """What was noticed while reading, one sentence each."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitInfo(Record):
    """How the training table was split: development rows choose and fit, test rows only score."""

    n_development: int
    """Rows that choose the site and the regularization and fit the probe."""
    n_test: int
    """Rows that were never used to choose anything."""
    n_development_groups: int
    """Groups among the development rows."""
    n_test_groups: int
    """Groups among the test rows."""
    folds: int
    """Folds of cross-validation within the development rows."""
    rule: str
    """How the split was made, in words."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataInfo(Record):
    """The tables."""

    train: TableInfo
    """The table the probe learnt from."""
    split: SplitInfo
    """How it was split."""
    tests: tuple[TableInfo, ...] = ()
    """The other tables the probe was tried on."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class VerifyInfo(Record):
    """A sample of the texts, captured again one at a time."""

    n: int
    """How many texts were captured again."""
    largest_difference: float
    """The largest absolute difference from the batched capture, over all sites."""
    relative_difference: float | None = None
    """The largest difference divided by the largest activation of its site."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CaptureInfo(Record):
    """How the activations were read."""

    sites: tuple[str, ...]
    """The sites, from the shallowest to the deepest."""
    tokens: str
    """The token rule."""
    n_texts: int
    """How many texts ran through the model, all tables together."""
    n_tokens: int
    """How many tokens they have."""
    n_truncated: int
    """How many of the texts were cut to the model's context; more than 0 only where that was asked for."""
    seconds: float
    """The time it took."""
    tokens_per_second: float
    """Tokens divided by seconds."""
    verify: VerifyInfo | None = None
    """What recomputing a sample found; null where it was not asked for."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricInfo(Record):
    """The metric that leads this report; `by_site` and `probes_compared` are in it."""

    name: MetricName
    """The field that holds it elsewhere."""
    title: str
    """Its name in sentences, for example ``AUROC``."""
    chance: float
    """What guessing scores: 0.5 for auroc, 0 for spearman."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selected(Record):
    """The probe that was chosen, on development rows only."""

    site: str
    """The site it reads."""
    probe: str
    """The fitter that made it."""
    regularization: float | None
    """Its strength; null for a fitter that has none."""
    validation: Estimate
    """What it scored in cross-validation, in the leading metric."""
    corrected: Estimate
    """What "choose the best" scores on folds that had no part in the choice; its method says how (nested cross-validation, or BBC-CV)."""
    optimism: float
    """How much choosing the best flattered it: validation minus corrected."""
    n_candidates: int
    """How many pairs of site and strength it was chosen from."""
    rule: str
    """How it was chosen, in words."""
    stability: Estimate | None = None
    """How alike the probe and refits on bootstrapped groups score the test rows: Pearson correlation, mean and central spread."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scores(Record):
    """What the chosen probe scored on the test rows. Metrics that do not apply are absent."""

    n: int
    """Test rows."""
    n_groups: int
    """Groups among them; intervals resample groups."""
    auroc: IfApplies = None
    """The chance that a positive scores above a negative, ties counting half; for more classes, the mean of one against the rest."""
    accuracy: IfApplies = None
    """The share of rows whose predicted class is right."""
    brier: IfApplies = None
    """The mean squared error of the probabilities; 0 is best."""
    log_loss: IfApplies = None
    """The mean negative log probability of the label, in nats; 0 is best."""
    ece: IfApplies = None
    """The expected calibration error: how far probabilities are from frequencies; 0 is best."""
    spearman: IfApplies = None
    """The rank correlation of prediction and label."""
    r2: IfApplies = None
    """The share of the labels' variance that the predictions explain; negative where they are worse than the mean."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SiteScore(Record):
    """One point of the curve over sites, in the leading metric, for the chosen fitter."""

    site: str
    """The site."""
    regularization: float | None
    """The strength that was best in validation at this site; null for a fitter that has none."""
    validation: float
    """The score in cross-validation; the choice is made on this."""
    test: Estimate
    """The score on the test rows, with an interval for this site alone. Never used to choose."""
    band_low: float | None = None
    """The lower edge of a band that covers all sites at once; null where it was not computed."""
    band_high: float | None = None
    """Its upper edge."""
    untrained: float | None = None
    """What the same fitter scores on the same architecture with random weights; null where that control was not run."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProbeScore(Record):
    """Another fitter on the same rows, at the place that was best for it in validation."""

    probe: str
    """The fitter."""
    site: str
    """The site it chose."""
    regularization: float | None
    """The strength it chose; null for a fitter that has none."""
    validation: float
    """Its score in cross-validation, in the leading metric."""
    test: Estimate
    """Its score on the test rows, in the leading metric."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Baseline(Record):
    """What something that should not know the answer scores on the same test rows."""

    detail: str
    """What it is, in words."""
    auroc: IfApplies = None
    """Its score where the labels are classes. For a control that is drawn many times, the mean of the draws and their central interval."""
    spearman: IfApplies = None
    """Its score where the labels are numbers."""
    difference: Estimate | None = None
    """The probe's score minus this one's, resampled in pairs; null where pairing makes no sense."""
    p: float | None = None
    """The share of draws that score at least as well as the probe, with one added above and below; null for a baseline without draws."""
    site: str | None = None
    """The site it was read at; null where it does not read the model."""
    distribution: tuple[float, ...] | None = None
    """The score of each draw, sorted; null for a baseline without draws."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransferScore(Record):
    """A probe trained on one table and scored on another, at one site."""

    train: str
    """The table it was trained on."""
    test: str
    """The table it was scored on. For its own table, the test rows only."""
    site: str
    """The site."""
    selected: bool
    """Whether this is the site of the chosen probe."""
    n: int
    """How many rows were scored."""
    n_excluded: int = 0
    """Rows of the test table left out, because they or their duplicates were trained on."""
    auroc: IfApplies = None
    """The score where the labels are classes."""
    spearman: IfApplies = None
    """The score where the labels are numbers."""
    cosine: float | None = None
    """The cosine between this direction and the direction trained on the test table itself; null where there is not one direction each."""
    mcs: float | None = None
    """The same after whitening: the Mahalanobis cosine similarity, under the covariance of the test table's activations."""
    status: TransferStatus | None = None
    """What the verdict's rule makes of this score."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Histogram(Record):
    """How the chosen probe's scores are spread over one table."""

    table: str
    """The table; for the training table, its test rows."""
    score: str
    """What the score is, in words."""
    edges: tuple[float, ...]
    """The edges of the bins, rising; one more than there are bins. The same for every table of a report."""
    counts: Mapping[str, tuple[int, ...]]
    """The number of rows in each bin, for each class."""
    threshold: float | None = None
    """The score above which the positive class is predicted; null where there is no such number."""

    def __post_init__(self) -> None:
        if list(self.edges) != sorted(self.edges):
            raise InputError(f"expected edges that rise, got {self.edges}.")
        for name, counts in self.counts.items():
            if len(counts) != len(self.edges) - 1:
                raise InputError(f"{len(self.edges)} edges make {len(self.edges) - 1} bins, got {len(counts)} counts for {name!r}.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class WrongText(Record):
    """A text that the chosen probe got most wrong."""

    table: str
    """Its table."""
    row: int
    """Its row in that table, from 0."""
    text: str
    """The text."""
    label: Label
    """Its label."""
    predicted: Label
    """What the probe says."""
    score: float
    """The probe's score."""
    probability: float | None = None
    """The probability the probe gave to the true label; null where the probe claims no probabilities."""
    group: str | None = None
    """Its group."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timing(Record):
    """Where the time went, in seconds."""

    total: float
    """From start to the writing of the report."""
    stages: Mapping[str, float]
    """Each stage, in the order in which they ran."""


def score(record: Scores | Baseline | TransferScore, metric: MetricInfo) -> Estimate:
    """The score of a record in the report's leading metric.

    Raises:
        InputError: the record lacks it.
    """
    estimate: Estimate | None = getattr(record, metric.name)
    if estimate is None:
        raise InputError(f"the report's metric is {metric.name}, but this {type(record).__name__} has no {metric.name}; fill that field.")
    return estimate
