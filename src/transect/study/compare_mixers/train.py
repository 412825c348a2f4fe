"""One layer trained on one task: the same batches for every layer, kept as it goes, and gone on with exactly."""

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from transect._files import atomic_path
from transect.mixers.models import StackCache, StackConfig, StackForCausalLM
from transect.mixers.tasks import Batch, Task
from transect.study.compare_mixers.records import SOLVED, Run
from transect.study.compare_mixers.settings import CompareSettings


def new_model(spec: Mapping[str, Any], task: Task, settings: CompareSettings, *, seed: int) -> StackForCausalLM:
    """A stack of one kind of layer; torch's random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return StackForCausalLM(
            StackConfig(
                layers=[dict(spec)] * settings.depth,
                vocab_size=task.vocab_size,
                hidden_size=settings.hidden_size,
                num_heads=settings.num_heads,
                feed_forward=settings.feed_forward,
                tie_word_embeddings=False,
                initializer_range=settings.hidden_size**-0.5,  # the 0.02 of large models leaves small ones almost silent
            )
        )


def answers(model: StackForCausalLM, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits ``[m, vocab]`` and targets ``[m]`` where something is asked; logits of other places are never made."""
    x = model.model(batch.ids, use_cache=False).last_hidden_state
    asked = batch.targets != -100
    return model.lm_head(x[asked]), batch.targets[asked]


def state_numbers(model: StackForCausalLM, task: Task) -> int:
    """How many numbers the model remembers after one training sequence."""
    cache = StackCache()
    with torch.no_grad():
        model.model(task.batch(torch.Generator().manual_seed(0), 1, test=next(iter(task.tests))).ids, cache=cache)
    return cache.memory.numbers()


def measure(
    model: StackForCausalLM, task: Task, *, test: int | None, size: int, seed: int, at: float | None = None
) -> tuple[float, float | None]:
    """Accuracy and mean loss on new sequences: those of a test (at a point of the second axis, or anywhere), or of validation for None.

    Answers that are not finite numbers are wrong (the largest of NaNs would be the first token), and then there is no mean loss.
    """
    draw, right, lost, count = torch.Generator().manual_seed(seed), 0, 0.0, 0
    model.eval()
    with torch.no_grad():
        for start in range(0, size, 32):
            some = min(32, size - start)
            logits, targets = answers(model, _drawn(task, draw, some, test=test, at=at))
            right += int(((logits.argmax(-1) == targets) & logits.isfinite().all(-1)).sum())
            lost += float(functional.cross_entropy(logits, targets, reduction="sum"))
            count += len(targets)
    return right / count, lost / count if math.isfinite(lost) else None


def _drawn(task: Task, draw: torch.Generator, size: int, *, test: int | None, at: float | None) -> Batch:
    if test is None:
        return task.validation(draw, size)
    return task.batch(draw, size, test=test) if at is None else task.batch_at(draw, size, test=test, at=at)


def train(
    spec: Mapping[str, Any],
    task: Task,
    settings: CompareSettings,
    *,
    seed: int,
    learning_rate: float,
    kept: Path | None,
    advance: Callable[[float], None],
) -> Run:
    """Train a layer and test it; a training whose loss or gradient is no longer finite ends there, untested.

    Args:
        spec: the layer and its settings.
        task: what it learns.
        settings: how.
        seed: of weights and batches.
        learning_rate: at its highest; it rises over the first tenth and falls as a cosine to a tenth.
        kept: where the state is kept at every validation, and gone on from; None for nowhere.
        advance: told of every step.
    """
    model = new_model(spec, task, settings, seed=seed)
    plain = [part for part in model.parameters() if part.ndim > 1]
    others = [part for part in model.parameters() if part.ndim <= 1]
    groups = [{"params": plain, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.98))
    draw = torch.Generator().manual_seed(1_000_003 * (seed + 1))
    done, spent, curve = 0, 0.0, []
    if kept is not None and kept.is_file():
        state = torch.load(kept, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        draw.set_state(state["draw"])
        done, spent, curve = state["done"], state["spent"], [tuple(point) for point in state["curve"]]
        advance(done)
    start, diverged = time.perf_counter() - spent, None
    while done < settings.steps and not _learnt(curve):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * _share(done, settings.steps)
        model.train()
        logits, targets = answers(model, task.batch(draw, settings.batch_size))
        loss = functional.cross_entropy(logits, targets)
        loss.backward()
        size = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        done += 1
        advance(1)
        if not (math.isfinite(loss.item()) and math.isfinite(size.item())):
            diverged = done
            break
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if done % settings.every == 0 or done == settings.steps:
            curve.append((done, measure(model, task, test=None, size=max(settings.test_size // 2, 32), seed=7)[0]))
            if kept is not None:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "draw": draw.get_state(), "done": done}
                with atomic_path(kept) as path:
                    torch.save({**state, "spent": time.perf_counter() - start, "curve": curve}, path)
    seconds = time.perf_counter() - start
    advance(settings.steps - done)
    tests = task.tests if diverged is None else ()
    found = {test: measure(model, task, test=test, size=settings.test_size, seed=11) for test in tests}
    points = () if task.across is None else task.across.points
    across = {
        test: tuple(measure(model, task, test=test, size=settings.test_size, seed=11, at=at)[0] for at in points)
        for test in tests
        if points
    }
    return Run(
        seed=seed,
        learning_rate=learning_rate,
        steps=done,
        curve=tuple(curve),
        validation=curve[-1][1] if diverged is None else 0.0,
        accuracy={test: accuracy for test, (accuracy, _) in found.items()},
        loss={test: loss for test, (_, loss) in found.items()},
        seconds=seconds,
        across=across,
        diverged=diverged,
    )


def _learnt(curve: list[Any]) -> bool:
    return len(curve) > 1 and min(curve[-1][1], curve[-2][1]) >= SOLVED


def _share(done: int, steps: int) -> float:
    warm = max(steps // 10, 1)
    if done < warm:
        return (done + 1) / warm
    return 0.55 + 0.45 * math.cos(math.pi * (done - warm) / max(steps - warm, 1))
