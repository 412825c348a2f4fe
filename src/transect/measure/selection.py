"""Choosing a site and a strength from out-of-fold scores, and correcting for having chosen the best.

The best of many is best partly by luck, so its validation score flatters it. Two corrections.

Nested cross-validation, for scores that were fitted out of fold: the choice for a fold is made by fits that never saw it, on the other folds, and
what was chosen is measured on the fold. On noise the mean is chance exactly. It needs fits without two folds (`transect.probes.Inside`).

Bootstrap bias corrected cross-validation (BBC-CV: Tsamardinos, Greasidou and Borboudakis 2018), for scores that were not fitted to these
rows: in each bootstrap resample of the groups the best is chosen on the groups drawn and measured on the groups not drawn. It needs no fits.
For out-of-fold scores it leans upward, though less than the validation score: a group not drawn was scored by a fit that saw groups drawn, and
the other way round, so what they share by chance at a site counts in the choice and in the measurement. On noise, 100 draws each of ridge
fits at three strengths in five folds: 0.54 for 80 rows (4 sites of width 6; validation 0.61), 0.535 for 200 rows (6 of 32; 0.59), 0.52 for 400
rows (12 of 64; 0.57), each within 0.007. Nested, 500, 500 and 200 draws: 0.502, 0.502 and 0.498, each within 0.004; with a signal planted, 0.84
where the chosen probe scores 0.85 on fresh rows.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from transect.errors import InputError
from transect.measure._inputs import Floats, Ints, as_classes, as_floats, check_length
from transect.measure.estimate import Estimate
from transect.measure.intervals import interval, no_surer_than_groups
from transect.measure.metric import Kind, Metric, metric_for
from transect.measure.resampling import resample_counts, units
from transect.measure.scores import auroc_columns
from transect.measure.statistic import Statistic

_DIGITS = 9  # scores that agree to so many digits are a tie


@dataclasses.dataclass(frozen=True, eq=False)
class Choice:
    """Which site and strength validation chose.

    Args:
        site: index of the site.
        strength: index of the strength.
        strength_at: ``[s]``, the index of the strength that is best at each site, by the same preference among equals.
        validation: mean over folds of the metric at the choice.
        table: ``[s, c]``, the same for every site and strength.
        per_fold: ``[s, c, f]``; NaN in a fold where the metric is undefined.
        left_out: folds in which the metric is undefined (one class only), for every site alike.
        at_edge: sentences, one for each way in which the choice lies at the edge of what was tried.
        rule: how it was chosen, in words.
    """

    site: int
    strength: int
    strength_at: Ints
    validation: float
    table: Floats
    per_fold: Floats
    left_out: int
    at_edge: tuple[str, ...]
    rule: str


@dataclasses.dataclass(frozen=True, eq=False)
class Correction:
    """What choosing the best is worth on groups that had no part in the choice.

    Args:
        corrected: the metric of the whole procedure "choose the best", with its interval.
        optimism: validation score of the chosen one minus the corrected score.
        site_share: ``[s]``, how often each site was chosen among the resamples, or among the folds.
        left_out: resamples, or folds, in which it could not be measured, for want of a class.
    """

    corrected: Estimate
    optimism: float
    site_share: Floats
    left_out: int


def choose(
    scores: Any, targets: Any, folds: Any, *, strengths: Sequence[float], kind: Kind = "binary", one_standard_error: bool = False
) -> Choice:
    """Choose a site and a strength from out-of-fold scores.

    The metric is taken inside each fold and averaged, since scores of different folds come from different fits and their scales
    need not agree. The best mean wins; among equals the strength nearest the middle of those tried, which has been bracketed from both
    sides, then the stronger of two, then the shallower site.
    ``one_standard_error`` takes instead the strongest regularisation, then the shallowest site, whose mean is within one standard
    error (over folds, of the best) of the best (Breiman et al. 1984): simpler, and as good as can be told.

    Args:
        scores: ``[s, c, n]`` out-of-fold scores of each site (shallow to deep) and strength; ``[s, c, n, k]`` for more classes.
        targets: ``[n]`` class indices, or numbers.
        folds: ``[n]``, the fold in which each row was held out.
        strengths: ``[c]``, larger is more regularised.
        kind: of the label.
        one_standard_error: prefer the simplest within one standard error.

    Raises:
        InputError: shapes that do not fit, NaN, or no fold in which the metric is defined.

    Examples:
        >>> import numpy as np
        >>> labels = np.array([0, 1, 0, 1])
        >>> scores = np.stack([[0.0 * labels], [1.0 * labels]])
        >>> choose(scores, labels, [0, 0, 1, 1], strengths=[1.0]).site
        1
    """
    values, truth, fold_of, metric = _checked(scores, targets, folds, strengths, kind)
    n_sites, n_strengths = values.shape[:2]
    flat = values.reshape(n_sites * n_strengths, *values.shape[2:])
    names = np.unique(fold_of)
    per_fold = np.stack([fold_metric(flat[:, fold_of == name], truth[fold_of == name], kind=kind) for name in names], axis=1)
    defined = ~np.isnan(per_fold[0])
    if not defined.any():
        raise InputError(f"{metric.title} is undefined in all {len(names)} folds (one class each); use fewer folds.")
    order = _preferred_first(n_sites, strengths, simplest=one_standard_error)
    best = order[int(_pick(per_fold[order][:, defined, None], one_standard_error)[0])]
    table = per_fold[:, defined].mean(axis=1)
    site, strength = divmod(int(best), n_strengths)
    return Choice(
        site=site,
        strength=strength,
        strength_at=_strength_at(table, order, n_sites),
        validation=float(table[best]),
        table=table.reshape(n_sites, n_strengths),
        per_fold=per_fold.reshape(n_sites, n_strengths, len(names)),
        left_out=int((~defined).sum()),
        at_edge=_edges(site, strength, n_sites, strengths),
        rule=_rule(metric, int(defined.sum()), one_standard_error),
    )


def fold_metric(scores: Floats, targets: Floats | Ints, *, kind: Kind) -> Floats:
    """The metric ``[c]`` of scores ``[c, m]`` (``[c, m, k]``) of the rows of one fold; NaN where they lack a class."""
    if kind == "binary" and len(np.unique(targets)) == 2:
        return auroc_columns(scores.T, targets)
    try:
        return np.array([metric_for(kind).measure(row, targets) for row in scores])
    except InputError:  # a fold that lacks a class; counted by the caller
        return np.full(len(scores), np.nan)


def correct_in_folds(
    scores: Any,
    inside: Any,
    targets: Any,
    folds: Any,
    *,
    strengths: Sequence[float],
    kind: Kind = "binary",
    groups: Any = None,
    one_standard_error: bool = False,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Correction:
    """Score of "choose the best" on folds that had no part in the choice: nested cross-validation (see the head of this module).

    The metric is taken inside folds, and its interval knows that their fits share rows (`transect.measure.cross_validated`).

    Args:
        scores: as for `choose`.
        inside: ``[s, c, f, p]`` the metric of each part p by fits that saw neither it nor fold f, folds in rising order; NaN where there is
            none. What `choose` would do for fold f is done with its mean over p.
        targets: as for `choose`.
        folds: as for `choose`.
        strengths: as for `choose`.
        kind: of the label.
        groups: ``[n]``; None makes each row its own group.
        one_standard_error: as for `choose`, so that the same procedure is judged.
        level: of the interval.
        resamples: of the interval.
        seed: of its draws.

    Raises:
        InputError: as for `choose`, or a fold for which there is nothing to choose by.

    Examples:
        >>> import numpy as np
        >>> labels, folds = np.tile([0, 1], 20), np.repeat([0, 1], 20)
        >>> scores = np.stack([[0.0 * labels], [1.0 * labels]])
        >>> inside = np.array([[[[np.nan, 0.5], [0.5, np.nan]]], [[[np.nan, 1.0], [1.0, np.nan]]]])
        >>> found = correct_in_folds(scores, inside, labels, folds, strengths=[1.0])
        >>> found.corrected.value, found.site_share.tolist()
        (1.0, [0.0, 1.0])
    """
    values, truth, fold_of, metric = _checked(scores, targets, folds, strengths, kind)
    n_sites, n_strengths, n = values.shape[:3]
    names, place = np.unique(fold_of, return_inverse=True)
    table = np.asarray(inside, dtype=np.float64)
    if table.ndim != 4 or table.shape[:3] != (n_sites, n_strengths, len(names)):
        raise InputError(f"inside must be [{n_sites}, {n_strengths}, {len(names)}, parts] like scores and folds, got {list(table.shape)}.")
    for index, name in enumerate(names):
        if np.isnan(table[:, :, index]).all():
            raise InputError(f"there is nothing to choose by for fold {name}: no fit without it and a part of the others. Use other folds.")
    chosen = choose(values, truth, fold_of, strengths=strengths, kind=kind, one_standard_error=one_standard_error)
    order = _preferred_first(n_sites, strengths, simplest=one_standard_error)
    by_part = table.reshape(n_sites * n_strengths, len(names), -1)[order].transpose(0, 2, 1)
    picks = order[_pick(by_part, one_standard_error)]
    nested = values.reshape(n_sites * n_strengths, *values.shape[2:])[picks[place], np.arange(n)]
    estimate = interval(metric.statistic_in_folds(nested, truth, fold_of), groups=groups, level=level, resamples=resamples, seed=seed)
    words = f"nested cross-validation: best of {len(order)} chosen for each of {len(names)} folds without it; {estimate.method}"
    share = np.bincount(picks // n_strengths, minlength=n_sites) / len(picks)
    return Correction(dataclasses.replace(estimate, method=words), chosen.validation - estimate.value, share, chosen.left_out)


def correct_for_choosing(
    scores: Any,
    targets: Any,
    folds: Any,
    *,
    strengths: Sequence[float],
    kind: Kind = "binary",
    groups: Any = None,
    one_standard_error: bool = False,
    level: float = 0.95,
    resamples: int = 500,
    seed: int = 0,
) -> Correction:
    """Score of "choose the best" on groups that had no part in the choice, by BBC-CV (see the head of this module).

    It leans upward where scores were fitted out of fold; `correct_in_folds` does not.

    Args:
        scores: as for `choose`.
        targets: as for `choose`.
        folds: as for `choose`.
        strengths: as for `choose`.
        kind: of the label.
        groups: ``[n]``; None makes each row its own group.
        one_standard_error: as for `choose`, so that the same procedure is judged.
        level: of the interval.
        resamples: how many.
        seed: of the draws.

    Raises:
        InputError: as for `choose`, or no resample in which it can be measured.
    """
    values, truth, fold_of, metric = _checked(scores, targets, folds, strengths, kind)
    chosen = choose(values, truth, fold_of, strengths=strengths, kind=kind, one_standard_error=one_standard_error)
    n_sites, n_strengths, n = values.shape[:3]
    order = _preferred_first(n_sites, strengths, simplest=one_standard_error)
    flat = values.reshape(n_sites * n_strengths, *values.shape[2:])[order]
    unit_of_row, n_units, n_groups = units(groups, n=n, seed=seed)
    rows_of = [np.flatnonzero(fold_of == name) for name in np.unique(fold_of)]
    parts = [(rows, _statistics(flat[:, rows], truth[rows], metric)) for rows in rows_of]
    measured: list[Floats] = []
    picks: list[Ints] = []
    for counts in resample_counts(n_units, resamples=resamples, seed=seed):
        pick = _pick(_evaluate(parts, counts, unit_of_row), one_standard_error)
        outside = _evaluate(parts, (counts == 0).astype(np.float64), unit_of_row)
        measured.append(_nanmean(outside)[pick, np.arange(len(pick))])
        picks.append(pick)
    outcome = np.concatenate(measured)
    defined = np.isfinite(outcome)
    if not defined.any():
        raise InputError(f"no bootstrap resample of {n_groups} groups leaves both classes outside; there are too few groups to correct.")
    sites = order[np.concatenate(picks)] // n_strengths
    low, high = np.quantile(outcome[defined], [(1 - level) / 2, (1 + level) / 2])
    value = float(outcome[defined].mean())
    best = metric.statistic(flat[np.bincount(np.concatenate(picks)).argmax()], truth)
    low, high = no_surer_than_groups(float(low), float(high), value, best, unit_of_row, n_units, level=level)
    words = f"BBC-CV: best of {len(flat)} chosen on {int(defined.sum())} resamples of {n_groups} groups, measured on the groups not drawn"
    corrected = Estimate(value, low, high, level, n, n_groups, words)
    share = np.bincount(sites, minlength=n_sites) / len(sites)
    return Correction(corrected, chosen.validation - value, share, int((~defined).sum()))


def _checked(scores: Any, targets: Any, folds: Any, strengths: Sequence[float], kind: Kind) -> tuple[Floats, Floats | Ints, Ints, Metric]:
    metric = metric_for(kind)
    axes = 4 if kind == "multiclass" else 3
    values = as_floats(scores, name="scores", ndim=(axes,))
    n = values.shape[2]
    if len(strengths) != values.shape[1]:
        raise InputError(f"scores [s, c, n] have {values.shape[1]} strengths, but {len(strengths)} were named.")
    truth = as_floats(targets, name="targets") if kind == "number" else as_classes(targets, n=n, name="targets")
    check_length(truth, n=n, name="targets")
    return values, truth, as_classes(folds, n=n, name="folds"), metric


def _statistics(flat: Floats, truth: Floats | Ints, metric: Metric) -> list[Statistic]:
    try:
        return [metric.statistic(row, truth) for row in flat]
    except InputError:  # a fold that lacks a class is undefined in every resample
        return []


def _evaluate(parts: list[tuple[Ints, list[Statistic]]], counts: Floats, unit_of_row: Ints) -> Floats:
    """The metric ``[configurations, folds, b]`` of each fold, where its groups are weighted by counts."""
    return np.stack([np.stack([s.evaluate(counts, unit_of_row[rows]) for s in found]) for rows, found in parts if found], axis=1)


def _pick(per_fold: Floats, one_standard_error: bool) -> Ints:
    """Index ``[b]`` of the chosen row of ``[configurations, folds, b]``, whose rows come in the order of preference."""
    mean = np.nan_to_num(np.round(_nanmean(per_fold), _DIGITS), nan=-np.inf)
    if not one_standard_error:
        return mean.argmax(axis=0)
    best = mean.argmax(axis=0)
    columns = np.arange(mean.shape[1])
    folds_of_best = per_fold[best, :, columns]
    present = np.isfinite(folds_of_best).sum(axis=1)
    squares = np.nansum((folds_of_best - mean[best, columns][:, None]) ** 2, axis=1)
    error = np.sqrt(squares / np.maximum(present - 1, 1) / np.maximum(present, 1))
    return (mean >= mean[best, columns] - error - 10.0**-_DIGITS).argmax(axis=0)


def _nanmean(per_fold: Floats) -> Floats:
    present = np.isfinite(per_fold)
    with np.errstate(invalid="ignore"):
        return np.where(present, per_fold, 0.0).sum(axis=1) / present.sum(axis=1)


def _strength_at(table: Floats, order: Ints, n_sites: int) -> Ints:
    """The best strength ``[s]`` of each site, for values ``[s * c]`` and the order in which equals are preferred."""
    n_strengths = len(table) // n_sites
    values = np.round(table, _DIGITS)
    at_site = [order[order // n_strengths == site] for site in range(n_sites)]
    return np.array([mine[values[mine].argmax()] % n_strengths for mine in at_site])


def _preferred_first(n_sites: int, strengths: Sequence[float], *, simplest: bool) -> Ints:
    """The configurations in the order in which equals are preferred."""
    preferred = np.argsort(-np.asarray(strengths, dtype=np.float64), kind="stable")
    if not simplest:
        from_middle = np.abs(np.arange(len(strengths)) - (len(strengths) - 1) / 2)
        preferred = preferred[np.argsort(from_middle, kind="stable")]
    return (np.arange(n_sites) * len(strengths) + preferred[:, None]).ravel()


def _edges(site: int, strength: int, n_sites: int, strengths: Sequence[float]) -> tuple[str, ...]:
    sentences = []
    if n_sites > 2 and site == n_sites - 1:
        sentences.append("the chosen site is the deepest that was tried")
    if len(strengths) > 2 and strengths[strength] in {min(strengths), max(strengths)}:
        which = "weakest" if strengths[strength] == min(strengths) else "strongest"
        sentences.append(f"the chosen regularisation is the {which} that was tried")
    return tuple(sentences)


def _rule(metric: Metric, n_folds: int, one_standard_error: bool) -> str:
    best = f"the best mean {metric.title} of {n_folds} folds"
    if one_standard_error:
        return f"the strongest regularisation, then the shallowest site, within one standard error of {best}"
    return f"{best}; among equals the strength nearest the middle of those tried, then the shallower site"
