"""Every layer, learning rate and seed in turn; the best learning rate of each layer is chosen on validation sequences and tested on others."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transect._files import write_json
from transect._progress import progress
from transect.errors import InputError
from transect.mixers.tasks import Task
from transect.study.compare_mixers.records import Comparison, LayerResult, Run
from transect.study.compare_mixers.settings import CompareSettings, layer_spec
from transect.study.compare_mixers.train import new_model, state_numbers, train
from transect.study.folder import claim_folder

RESULT = "compare.json"


def compare_mixers(
    task: Task,
    layers: Sequence[str],
    *,
    settings: CompareSettings | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    shown: bool | None = None,
) -> Comparison:
    """Train layers alike on a task and test them within and beyond what they were trained on.

    Args:
        task: what they learn, for instance ``transect.mixers.tasks.Recall()``.
        layers: names, as `layer_spec` reads them.
        settings: how they are trained; None for the usual way.
        out: a folder, where the state of every training is kept as it goes; None for nowhere.
        resume: go on with a comparison that was stopped; the results are those of one that was not.
        overwrite: replace what is in the folder.
        shown: whether to show a progress bar; None on a terminal only.

    Raises:
        InputError: no layers, one twice, or one that does not exist.
        StoreError: the folder holds something already.
    """
    settings = CompareSettings() if settings is None else settings
    if not layers or len(set(layers)) != len(layers):
        raise InputError(f"expected layers to compare, each once, got {', '.join(layers) or 'none'}.")
    specs = {name: layer_spec(name) for name in layers}
    plan = {"task": task.alias, "of": _sizes(task), "layers": list(layers), "settings": settings.to_json()}
    folder = None if out is None else claim_folder(out, plan, resume=resume, overwrite=overwrite, result=RESULT).path
    models = {
        name: new_model(spec, task, settings, seed=0) for name, spec in specs.items()
    }  # every mistake is found before anything is trained
    found = []
    total = len(layers) * settings.seeds * len(settings.learning_rates) * settings.steps
    with progress("training", total=total, unit="steps", shown=shown) as advance:
        for place, (name, spec) in enumerate(specs.items()):
            runs: dict[float, list[Run]] = {}
            for rate in settings.learning_rates:
                for seed in range(settings.seeds):
                    kept = None if folder is None else folder / "runs" / f"{place}-{rate:g}-{seed}.pt"
                    finished = None if kept is None else kept.with_suffix(".json")
                    if finished is not None and finished.is_file():
                        run = _read(finished)
                        advance(settings.steps)
                    else:
                        if kept is not None:
                            kept.parent.mkdir(exist_ok=True)
                        run = train(spec, task, settings, seed=seed, learning_rate=rate, kept=kept, advance=advance)
                        if finished is not None and kept is not None:
                            write_json(finished, vars(run))
                            kept.unlink(missing_ok=True)
                    runs.setdefault(rate, []).append(run)
            tried = {rate: statistics.fmean(run.validation for run in each) for rate, each in runs.items()}
            # One that diverges with some seed is chosen only where all do.
            best = max(tried, key=lambda rate: (-sum(run.diverged is not None for run in runs[rate]), tried[rate]))
            model = models[name]
            found.append(
                LayerResult(
                    name=name,
                    parameters=sum(part.numel() for part in model.parameters()),
                    state=state_numbers(model, task),
                    runs=tuple(runs[best]),
                    tried=tried,
                )
            )
    return Comparison(
        task=task.alias,
        chance={test: task.chance(test) for test in task.tests},
        harder=task.harder,
        tests=task.tests,
        across=task.across,
        layers=tuple(found),
        settings=plan,
    )


def _sizes(task: Task) -> dict[str, Any]:
    sizes = {name: value for name, value in vars(task).items() if isinstance(value, (int, float))}
    data = getattr(task, "data", None)
    return sizes if data is None else {**sizes, "bytes": len(data)}


def _read(path: Path) -> Run:
    held = json.loads(path.read_text(encoding="utf-8"))
    for name in ("accuracy", "loss"):
        held[name] = {int(test): value for test, value in held[name].items()}
    held["across"] = {int(test): tuple(values) for test, values in held.get("across", {}).items()}
    return Run(**{**held, "curve": tuple(tuple(point) for point in held["curve"])})
