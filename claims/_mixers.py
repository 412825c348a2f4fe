"""What claims about sequence layers share: layers trained alike on a small task."""

from collections.abc import Sequence
from typing import Any

import torch

from transect.mixers.tasks import Task
from transect.study.compare_mixers import CompareSettings, Comparison, compare_mixers


def trained(task: Task, layers: Sequence[str], **settings: Any) -> Comparison:
    """Layers trained on a task, with one thread, so that numbers are those of any machine with the same torch."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return compare_mixers(task, layers, settings=CompareSettings(**settings), shown=False)
    finally:
        torch.set_num_threads(before)


def each_at(found: Comparison, test: int) -> list[float]:
    """Every layer's accuracy in a test, in the order asked for; a layer that diverged ends the claim, since it has none."""
    values = []
    for layer in found.layers:
        value = layer.accuracy(test)
        if value is None:
            raise RuntimeError(f"{layer.name} {layer.status}, so there is nothing to measure.")
        values.append(value)
    return values


def best_at(found: Comparison, test: int) -> list[float]:
    """Every layer's best seed in a test, in the order asked for; a seed that diverged is none."""
    each_at(found, test)
    return [max(run.accuracy[test] for run in layer.finished) for layer in found.layers]


def accuracies(found: Comparison) -> dict[str, float]:
    """Every layer's accuracy in every test, by a name that says both."""
    columns = {test: each_at(found, test) for test in found.tests}
    return {f"{layer.name}, {found.harder} {test}": columns[test][row] for row, layer in enumerate(found.layers) for test in found.tests}
