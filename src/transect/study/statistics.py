"""The metrics of a report, by the kind of label, in one place."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from transect.linear import Readout
from transect.measure import (
    Estimate,
    Metric,
    Statistic,
    accuracy_statistic,
    bootstrap,
    difference,
    estimates,
    expected_calibration_error,
    interval,
    mean_statistic,
    metric_for,
    r2_statistic,
)
from transect.measure.metric import Kind


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Judge:
    """Scores rows of one kind of label; knows how intervals are made.

    Args:
        kind: of the label.
        level: of the intervals.
        resamples: of the bootstrap.
        seed: of its draws.
    """

    kind: Kind
    level: float
    resamples: int
    seed: int

    @property
    def metric(self) -> Metric:
        """The metric that leads."""
        return metric_for(self.kind)

    @property
    def field(self) -> str:
        """The report's field for the leading metric; macro AUROC is written under auroc, as its title says."""
        return "spearman" if self.kind == "number" else "auroc"

    def statistic(self, scores: Any, targets: np.ndarray) -> Statistic:
        """The leading metric as a statistic."""
        return self.metric.statistic(scores, targets)

    def estimate(self, statistic: Statistic, groups: np.ndarray) -> Estimate:
        """A statistic with its interval."""
        return interval(statistic, groups=groups, level=self.level, resamples=self.resamples, seed=self.seed)

    def each(self, statistics: Sequence[Statistic], groups: np.ndarray) -> list[Estimate]:
        """Statistics of the same rows, each with an interval, from the same resamples."""
        return estimates(bootstrap(statistics, groups=groups, resamples=self.resamples, seed=self.seed), level=self.level)

    def each_and_all(self, statistics: Sequence[Statistic], groups: np.ndarray) -> tuple[list[Estimate], list[Estimate]]:
        """Every statistic with an interval of its own, and with intervals that hold all at once, from the same resamples."""
        resampled = bootstrap(statistics, groups=groups, resamples=self.resamples, seed=self.seed)
        return estimates(resampled, level=self.level), estimates(resampled, level=self.level, simultaneous=True)

    def leading(self, scores: Any, targets: np.ndarray, groups: np.ndarray) -> Estimate:
        """The leading metric with its interval."""
        return self.estimate(self.statistic(scores, targets), groups)

    def lead(self, scores: Any, others: Any, targets: np.ndarray, groups: np.ndarray) -> Estimate:
        """How far one set of scores leads another on the same rows, paired."""
        first, second = self.statistic(scores, targets), self.statistic(others, targets)
        return difference(first, second, groups=groups, level=self.level, resamples=self.resamples, seed=self.seed)

    def all(self, readout: Readout, activations: torch.Tensor, targets: np.ndarray, groups: np.ndarray) -> dict[str, Estimate]:
        """Every metric that applies to a readout, by the name of its field in the report."""
        scores = readout.scores(activations)
        found = {self.field: self.statistic(scores, targets)}
        if self.kind == "number":
            found["r2"] = r2_statistic(scores, targets)
            return {name: self.estimate(statistic, groups) for name, statistic in found.items()}
        predicted = (scores > 0).long() if scores.ndim == 1 else scores.argmax(dim=-1)
        found["accuracy"] = accuracy_statistic(predicted.cpu().numpy(), targets)
        estimates = {}
        if readout.link != "identity":
            chance = readout.probabilities(activations).double().cpu().numpy()
            hit = np.eye(chance.shape[1])[targets]
            squared = ((chance[:, 1] - targets) ** 2) if chance.shape[1] == 2 else ((chance - hit) ** 2).sum(axis=1)
            found["brier"] = mean_statistic(squared, name="brier")
            own = np.clip(chance[np.arange(len(targets)), targets], np.finfo(np.float64).tiny, 1)
            found["log_loss"] = mean_statistic(-np.log(own), name="log_loss")
            error = expected_calibration_error(chance[:, 1] if chance.shape[1] == 2 else chance, targets)
            estimates["ece"] = Estimate.bare(error, n=len(targets), method="15 bins of equal mass, no interval")
        return {**{name: self.estimate(statistic, groups) for name, statistic in found.items()}, **estimates}
