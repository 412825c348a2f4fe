"""What came out of a comparison, as plain records."""

import dataclasses
import statistics
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One training of one layer.

    Args:
        seed: of weights and batches.
        learning_rate: with which it was trained.
        steps: training steps until it had learnt the task, or all of them.
        curve: steps and the accuracy on validation sequences then.
        validation: the last of those accuracies.
        accuracy: by test, the share of right answers.
        loss: by test, the mean cross-entropy in nats.
        seconds: that training took on this machine.
    """

    seed: int
    learning_rate: float
    steps: int
    curve: tuple[tuple[int, float], ...]
    validation: float
    accuracy: Mapping[int, float]
    loss: Mapping[int, float]
    seconds: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerResult:
    """One layer: its best learning rate's runs, a seed each.

    Args:
        name: as it was asked for.
        parameters: of the whole model.
        state: numbers that the whole model remembers after one training sequence.
        runs: of the learning rate that was best on validation sequences, a run for each seed.
        tried: every learning rate and its mean validation accuracy.
    """

    name: str
    parameters: int
    state: int
    runs: tuple[Run, ...]
    tried: Mapping[float, float]

    def accuracy(self, test: int) -> float:
        """The mean over seeds."""
        return statistics.fmean(run.accuracy[test] for run in self.runs)

    def perplexity(self, test: int) -> float:
        """The exponential of the mean loss over seeds."""
        import math

        return math.exp(statistics.fmean(run.loss[test] for run in self.runs))

    def spread(self, test: int) -> tuple[float, float]:
        """The lowest and the highest accuracy of the seeds."""
        every = [run.accuracy[test] for run in self.runs]
        return min(every), max(every)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Layers side by side on one task.

    Args:
        task: its short name.
        chance: by test, the accuracy of somebody who knows everything but the order of things in the sequence.
        harder: what grows from test to test.
        tests: what each test is of, and whether it is within what was trained on.
        layers: in the order asked for.
        settings: how they were trained, plain JSON values.
    """

    task: str
    chance: Mapping[int, float]
    harder: str
    tests: Mapping[int, bool]
    layers: tuple[LayerResult, ...]
    settings: Mapping[str, Any]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Names of columns, and a row of words for each layer; a last row for chance."""
        names = [
            "layer",
            "parameters",
            "state",
            "steps",
            *(f"{self.harder} {test}{'' if inside else ' (beyond)'}" for test, inside in self.tests.items()),
        ]
        rows = []
        for layer in self.layers:
            steps = max(run.steps for run in layer.runs)
            row = [layer.name, f"{layer.parameters:,}", f"{layer.state:,}", str(steps)]
            for test in self.tests:
                low, high = layer.spread(test)
                seeds = "" if len(layer.runs) == 1 else f" [{low:.2f}, {high:.2f}]"
                measured = f"{layer.accuracy(test):.3f}{seeds}"
                row.append(measured if self.task != "perplexity" else f"{measured}, perplexity {layer.perplexity(test):.2f}")
            rows.append(row)
        rows.append(["chance", "", "", "", *(f"{self.chance[test]:.3f}" for test in self.tests)])
        return names, rows

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)
