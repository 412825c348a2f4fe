"""What should not know the answer: the surface of the texts, shuffled labels, random directions, an untrained model."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from transect.measure import (
    Estimate,
    TextBaseline,
    auroc_columns,
    fit_bag_of_words,
    fit_length,
    null_estimate,
    permutation_p,
    permute_labels,
    random_directions,
    score_correlation,
)
from transect.probes import resampled_scores
from transect.study.prepare import Part
from transect.study.search import Search
from transect.study.settings import Settings
from transect.study.statistics import Judge


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Control:
    """One control on the same test rows as the probe.

    Args:
        detail: what it is, in words.
        estimate: what it scores; for a control that is drawn many times, the mean and the central spread of the draws.
        difference: the probe's lead over it, paired; None where pairing makes no sense.
        p: the share of draws at least as good as the probe; None without draws.
        site: where it reads the model; None where it does not.
        distribution: the score of each draw, sorted; None without draws.
    """

    detail: str
    estimate: Estimate
    difference: Estimate | None = None
    p: float | None = None
    site: str | None = None
    distribution: tuple[float, ...] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Untrained:
    """The main search, repeated on the same architecture with random weights.

    Args:
        search: what was found there.
        activations: of the training table there, by site.
    """

    search: Search
    activations: Mapping[str, torch.Tensor]


def surface_controls(found: Search, activations: Mapping[str, torch.Tensor], part: Part, judge: Judge) -> dict[str, Control]:
    """Bag of words and text length, fitted on the development rows' texts."""
    texts = part.table.texts
    fit_texts, fit_targets = [texts[row] for row in part.development], part.targets[part.development]
    baselines: dict[str, TextBaseline] = {
        "bag_of_words": fit_bag_of_words(fit_texts, fit_targets, kind=judge.kind, groups=part.groups[part.development], seed=judge.seed),
        "length": fit_length(fit_texts, fit_targets, kind=judge.kind),
    }
    return {name: _against(found, activations, part, judge, baseline) for name, baseline in baselines.items()}


def _against(found: Search, activations: Mapping[str, torch.Tensor], part: Part, judge: Judge, baseline: TextBaseline) -> Control:
    targets, groups = part.targets[part.test], part.groups[part.test]
    own = found.readout.scores(activations[found.site][part.test])
    other = baseline.scores([part.table.texts[row] for row in part.test])
    return Control(
        detail=f"{baseline.title}: {baseline.detail}",
        estimate=judge.leading(other, targets, groups),
        difference=judge.lead(own, other, targets, groups),
    )


def shuffled_labels(found: Search, activations: torch.Tensor, part: Part, judge: Judge, settings: Settings) -> Control:
    """The chosen fit with labels shuffled as the design allows, on development and test rows alike.

    Args:
        found: the search whose choice is repeated.
        activations: ``[n, d]`` at the chosen site.
        part: the table.
        judge: the metric.
        settings: how many shuffles, and the seed.
    """
    rows = np.concatenate([part.development, part.test])
    shuffled = permute_labels(part.targets[rows], groups=part.groups[rows], shuffles=settings.permutations, seed=settings.seed)
    n_fit = len(part.development)
    fitted, held = shuffled.labels[:, :n_fit].T, shuffled.labels[:, n_fit:].T
    scores = resampled_scores(
        found.fitter,
        activations[part.development],
        fitted,
        activations[part.test],
        regularization=found.regularizations[found.site],
        classes=part.table.classes,
    )
    null = np.array(_columns(scores, held, judge))
    kept = null[np.isfinite(null)]
    observed = judge.metric.measure(found.readout.scores(activations[part.test]), part.targets[part.test])
    detail = f"the chosen probe fitted to {len(kept)} shufflings of the labels ({shuffled.how})"
    if len(kept) < len(null):
        detail += f"; {len(null) - len(kept)} more left one class in the test rows and are not counted"
    return Control(
        detail=detail,
        estimate=null_estimate(kept, what="shufflings", level=settings.level),
        p=permutation_p(observed, kept),
        site=found.site,
        distribution=tuple(np.sort(kept).tolist()),
    )


def random_direction(found: Search, activations: torch.Tensor, part: Part, judge: Judge, settings: Settings) -> Control:
    """Directions drawn at random at the chosen site, on the same test rows."""
    width, outputs = found.readout.width, len(found.readout.bias)
    drawn = random_directions(width, directions=settings.directions * outputs, seed=settings.seed)
    scores = activations[part.test].double().cpu().numpy() @ drawn.T
    shaped = scores if outputs == 1 else scores.reshape(len(scores), settings.directions, outputs)
    targets = np.broadcast_to(part.targets[part.test][:, None], (len(scores), settings.directions))
    null = np.array(_columns(shaped, targets, judge))
    return Control(
        detail=f"{settings.directions} random directions at the chosen site",
        estimate=null_estimate(null, what="random directions", level=settings.level),
        site=found.site,
        distribution=tuple(np.sort(null).tolist()),
    )


def untrained_control(found: Search, activations: Mapping[str, torch.Tensor], bare: Untrained, part: Part, judge: Judge) -> Control:
    """The same search on the same architecture with random weights, at the site that is best there."""
    targets, groups = part.targets[part.test], part.groups[part.test]
    own = found.readout.scores(activations[found.site][part.test])
    site = bare.search.site
    other = bare.search.readout.scores(bare.activations[site][part.test])
    return Control(
        detail="the same search on the same architecture with random weights, at the site that was best there",
        estimate=judge.leading(other, targets, groups),
        difference=judge.lead(own, other, targets, groups),
        site=site,
    )


def stability(found: Search, activations: torch.Tensor, part: Part, settings: Settings) -> Estimate:
    """How alike the chosen probe and refits on bootstrapped groups score the test rows: their Pearson correlations.

    The mean over refits, and their central spread; for more classes, over the class columns too.
    """
    rng = np.random.default_rng(settings.seed)
    ids, group_of = np.unique(part.groups[part.development], return_inverse=True)
    drawn = rng.multinomial(len(ids), np.full(len(ids), 1 / len(ids)), size=settings.refits)
    weights = drawn.T[group_of].astype(np.float64)
    targets = part.targets[part.development]
    usable = np.array([len(np.unique(targets[column > 0])) == len(np.unique(targets)) for column in weights.T])
    if part.table.kind != "number":
        weights = weights[:, usable]
    scores = resampled_scores(
        found.fitter,
        activations[part.development],
        np.broadcast_to(targets[:, None], weights.shape),
        activations[part.test],
        weights=weights,
        regularization=found.regularizations[found.site],
        classes=part.table.classes,
    )
    own = found.readout.scores(activations[part.test]).double().cpu().numpy()
    flat = scores.reshape(*scores.shape[:2], -1)
    own = own.reshape(len(own), -1)
    alike = [score_correlation(np.column_stack([own[:, k], flat[:, :, k]]))[0, 1:] for k in range(own.shape[1])]
    return null_estimate(np.nan_to_num(np.concatenate(alike)), what="bootstrap refits", level=settings.level)


def _columns(scores: Any, targets: np.ndarray, judge: Judge) -> list[float]:
    """The leading metric of ``scores [n, b(, k)]`` against ``targets [n, b]``, column by column; NaN where it is undefined."""
    defined = np.array([len(np.unique(column)) > 1 for column in targets.T])
    found = np.full(targets.shape[1], np.nan)
    if judge.kind == "binary":
        found[defined] = auroc_columns(scores[:, defined], targets[:, defined])
        return found.tolist()
    for column in np.flatnonzero(defined):
        if judge.kind == "multiclass" and len(np.unique(targets[:, column])) < scores.shape[2]:
            continue
        found[column] = judge.metric.measure(scores[:, column], targets[:, column])
    return found.tolist()
