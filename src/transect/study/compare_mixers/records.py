"""What came out of a comparison, as plain records."""

import dataclasses
import math
import statistics
from collections.abc import Mapping
from typing import Any

from transect.mixers.tasks import Axis

SOLVED = 0.995
"""The accuracy, twice in a row on validation sequences, from which a task counts as learnt."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One training of one layer.

    Args:
        seed: of weights and batches.
        learning_rate: with which it was trained.
        steps: training steps until it had learnt the task, or all of them.
        curve: steps and the accuracy on validation sequences then.
        validation: the last of those accuracies; 0 for a training that diverged.
        accuracy: by test, the share of right answers; none of a training that diverged, since nothing was trained.
        loss: by test, the mean cross-entropy in nats; None where some answer was not a finite number, which counts as wrong.
        seconds: that training took on this machine.
        across: by test, the share of right answers at each point of the task's second axis; empty for a task without one.
        diverged: the step whose loss or gradient was no longer a finite number, where the training ended; or None.
    """

    seed: int
    learning_rate: float
    steps: int
    curve: tuple[tuple[int, float], ...]
    validation: float
    accuracy: Mapping[int, float]
    loss: Mapping[int, float | None]
    seconds: float
    across: Mapping[int, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    diverged: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerResult:
    """One layer: its best learning rate's runs, a seed each.

    Args:
        name: as it was asked for.
        parameters: of the whole model.
        state: numbers that the whole model remembers after one training sequence.
        runs: of the learning rate that was best on validation sequences, a run for each seed.
        tried: every learning rate and its mean validation accuracy, over the seeds.
    """

    name: str
    parameters: int
    state: int
    runs: tuple[Run, ...]
    tried: Mapping[float, float]

    @property
    def finished(self) -> tuple[Run, ...]:
        """The runs that did not diverge; accuracies are theirs."""
        return tuple(run for run in self.runs if run.diverged is None)

    @property
    def status(self) -> str:
        """How the trainings ended: ``learnt``, ``all steps``, or ``diverged`` with the first step and how many runs."""
        lost = [run.diverged for run in self.runs if run.diverged is not None]
        if lost:
            of = "" if len(self.runs) == 1 else f" ({len(lost)} of {len(self.runs)} seeds)"
            return f"diverged at step {min(lost)}{of}"
        return "learnt" if all(run.validation >= SOLVED for run in self.runs) else "all steps"

    def accuracy(self, test: int) -> float | None:
        """The mean over seeds, or None where every run diverged."""
        every = [run.accuracy[test] for run in self.finished]
        return statistics.fmean(every) if every else None

    def perplexity(self, test: int) -> float | None:
        """The exponential of the mean loss over seeds, or None where that is no finite number."""
        every = [run.loss[test] for run in self.finished]
        finite = [value for value in every if value is not None]
        if not finite or len(finite) < len(every) or statistics.fmean(finite) > 700:  # beyond, exp overflows
            return None
        return math.exp(statistics.fmean(finite))

    def spread(self, test: int) -> tuple[float, float] | None:
        """The lowest and the highest accuracy of the seeds, or None where every run diverged."""
        every = [run.accuracy[test] for run in self.finished]
        return (min(every), max(every)) if every else None

    def accuracies_across(self, test: int) -> tuple[float, ...] | None:
        """The mean over seeds at each point of the second axis, or None where every run diverged or the task has no such axis."""
        every = [run.across[test] for run in self.finished if test in run.across]
        return tuple(map(statistics.fmean, zip(*every, strict=True))) if every else None

    def cell(self, test: int, *, perplexity: bool = False) -> str:
        """What a table says of a test: the mean, the lowest and highest of several seeds, and whatever was not finite."""
        mean, spread = self.accuracy(test), self.spread(test)
        if mean is None or spread is None:
            return "diverged"
        words = f"{mean:.3f}" if len(self.finished) == 1 else f"{mean:.3f} [{spread[0]:.3f}, {spread[1]:.3f}]"
        if any(run.loss[test] is None for run in self.finished):
            return f"{words}, not finite"
        if not perplexity:
            return words
        level = self.perplexity(test)
        return f"{words}, perplexity {'beyond numbers' if level is None else f'{level:.2f}'}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Layers side by side on one task.

    Args:
        task: its short name.
        chance: by test, the accuracy of somebody who knows everything but the order of things in the sequence.
        harder: what grows from test to test.
        tests: what each test is of, and whether it is within what was trained on.
        across: what else each test was of, or None.
        layers: in the order asked for.
        settings: how they were trained, plain JSON values.
    """

    task: str
    chance: Mapping[int, float]
    harder: str
    tests: Mapping[int, bool]
    across: Axis | None
    layers: tuple[LayerResult, ...]
    settings: Mapping[str, Any]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Names of columns, and a row of words for each layer; a last row for chance."""
        names = [
            "layer",
            "parameters",
            "state",
            "learning rate",
            "steps",
            "status",
            *(f"{self.harder} {test}{'' if inside else ' (beyond)'}" for test, inside in self.tests.items()),
        ]
        rows = []
        for layer in self.layers:
            steps = max(run.steps for run in layer.runs)
            rate = f"{layer.runs[0].learning_rate:g}"
            row = [layer.name, f"{layer.parameters:,}", f"{layer.state:,}", rate, str(steps), layer.status]
            rows.append([*row, *(layer.cell(test, perplexity=self.task == "perplexity") for test in self.tests)])
        rows.append(["chance", "", "", "", "", "", *(f"{self.chance[test]:.3f}" for test in self.tests)])
        return names, rows

    def notes(self) -> list[str]:
        """What a reader of the table must know, a sentence each."""
        trained = self.settings["settings"]
        seeds, rates = trained["seeds"], trained["learning_rates"]
        found = ["One seed: differences between layers may be chance."]
        if seeds > 1:
            found = [f"{seeds} seeds: the mean, and the lowest and highest in brackets."]
        if len(rates) > 1:
            tried = ", ".join(f"{rate:g}" for rate in rates)
            found.append(f"The learning rate is the best of {tried} on validation sequences, which are not those of the tests.")
        for layer in self.layers:
            lost = [run for run in layer.runs if run.diverged is not None]
            if lost:
                rest = "there is nothing to test" if len(lost) == len(layer.runs) else "the accuracies are those of the others"
                found.append(f"{layer.name} {layer.status}: loss or gradient was no longer a finite number, so {rest}.")
            overflowed = [test for test in self.tests if any(run.loss[test] is None for run in layer.finished)]
            if overflowed:
                where = ", ".join(map(str, overflowed))
                found.append(f"{layer.name}: some answers at {self.harder} {where} were not finite numbers, and count as wrong.")
        return found

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        held = dataclasses.asdict(self)
        for layer, record in zip(self.layers, held["layers"], strict=True):
            record["status"] = layer.status
            record["across"] = {test: layer.accuracies_across(test) for test in self.tests if self.across is not None}
        return {**held, "notes": self.notes()}
