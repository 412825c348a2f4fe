"""Was this text in the training data? An audit of what probes on activations say, beside what needs no activations.

A linear probe per layer separates members from non-members out of fold. For each fold the layer is chosen by probes that never saw it
(nested cross-validation), so that choosing the best of many flatters nothing: on noise the mean is 0.5. AUROC of fitted scores is taken
inside folds, with intervals for out-of-fold scores (`transect.measure.cross_validated`). Beside it stand the scores that read the
model's output only: the loss (Yeom et al. 2018), Min-K% (Shi et al. 2024) and the ratio of loss to zlib size (Carlini et al. 2021).

An attack is worth little on the average row; what matters is the true-positive rate where hardly any non-member is accused
(Carlini et al. 2022). And members that differ from non-members by their words or their dates are told apart without any model, so such
a set measures the shift and not memory (Das, Zhang and Tramer 2024, "Blind Baselines Beat Membership Inference Attacks for Foundation
Models"; Meeus et al. 2024). So a bag of words, which has seen no model, is measured on the same rows, and a warning is part of the result.

Source: LUMIA (2024), linear probes for membership inference from activations, layer by layer.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from transect.decide._folds import grouped_folds, standard_in_folds
from transect.decide._nested import choose_in_folds
from transect.errors import InputError
from transect.measure import Estimate, Statistic, auroc_statistic, bootstrap, difference, estimates, fit_bag_of_words, interval
from transect.measure._inputs import Bools, Floats, Ints, as_floats, as_positives, check_length
from transect.measure.cross_validated import cross_validated_auroc_statistic

_MARGIN = 0.05  # how far from chance the blind baseline's whole interval must lie for the warning
_WORDS = "bag of words"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attack:
    """What one score says about membership.

    Args:
        name: of the score.
        auroc: of members against non-members.
        tpr: share of members found at the false-positive rate asked for, with an exact two-sided interval for the threshold as it is.
    """

    name: str
    auroc: Estimate
    tpr: Estimate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Membership:
    """The audit.

    Args:
        layers: AUROC of each layer's probe out of fold; the intervals hold all at once. The best of them flatters.
        chosen: the layer with the largest.
        by_fold: the layer that was chosen for each fold, by the others.
        corrected: AUROC of "choose the best layer" on groups that had no part in the choice.
        fpr: the false-positive rate of every `tpr` here.
        probe: the scores behind `corrected`, each from a layer that its row had no part in choosing.
        baselines: loss, Min-K% and zlib ratio, as far as they were given.
        blind: scores that saw no model: words, and dates where they were given.
        over_best_blind: `corrected` minus the AUROC of the best blind score, paired; None where there is no blind score.
        warning: why the set does not measure memory, or is not what the audit takes it for; empty where nothing speaks against it.
    """

    layers: Mapping[str, Estimate]
    chosen: str
    by_fold: tuple[str, ...]
    corrected: Estimate
    fpr: float
    probe: Attack
    baselines: tuple[Attack, ...]
    blind: tuple[Attack, ...]
    over_best_blind: Estimate | None
    warning: str


def tpr_at_fpr(scores: Any, members: Any, *, fpr: float = 0.01, level: float = 0.95) -> Estimate:
    """Share of members above the lowest threshold that no more than ``fpr`` of the non-members here exceed.

    With fewer than ``1 / fpr`` non-members the threshold is the largest of them, and the true rate may be much above ``fpr``; `method`
    then says so. The interval (Clopper and Pearson 1934) is for this threshold: it does not know that the threshold was found here.

    Args:
        scores: ``[n]``, higher for members.
        members: ``[n]``.
        fpr: above 0 and below 1.
        level: of the interval.

    Raises:
        InputError: one class only, NaN (its row is named), a rate outside its range.

    Examples:
        >>> tpr_at_fpr([3.0, 2.0, 1.0, 0.0], [1, 1, 0, 0], fpr=0.5).value
        1.0
    """
    values, labels = as_floats(scores, name="scores"), as_positives(members, n=len(scores), name="members")
    if not 0 < fpr < 1:
        raise InputError(f"fpr must lie between 0 and 1, got {fpr}; 0.01 is usual.")
    if labels.all() or not labels.any():
        raise InputError(f"all {len(labels)} rows are {'members' if labels[0] else 'non-members'}; both kinds are needed.")
    others = np.sort(values[~labels])[::-1]
    allowed = math.floor(fpr * len(others) + 1e-9)
    n, found = int(labels.sum()), int((values[labels] > others[allowed]).sum())
    tail = (1 - level) / 2
    low = float(stats.beta.ppf(tail, found, n - found + 1)) if found else 0.0
    high = float(stats.beta.ppf(1 - tail, found + 1, n - found)) if found < n else 1.0
    few = "" if allowed else f"; {len(others)} non-members are fewer than a rate of {fpr:g} needs ({math.ceil(1 / fpr)})"
    return Estimate(
        found / n, low, high, level, n, None, f"Clopper-Pearson, {allowed} of {len(others)} non-members above the threshold{few}"
    )


def audit_membership(
    activations: Mapping[str, Any],
    members: Any,
    *,
    texts: Sequence[str] | None = None,
    dates: Any = None,
    loss: Any = None,
    min_k: Any = None,
    zlib_ratio: Any = None,
    groups: Any = None,
    C: float = 0.01,
    fpr: float = 0.01,
    folds: int = 5,
    level: float = 0.95,
    seed: int = 0,
) -> Membership:
    """Audit whether activations tell members of the training data, and whether anything simpler does as well.

    Intervals are for the probes as they were fitted: how much another fit would differ is not in them.

    Args:
        activations: site name -> ``[n, d]``.
        members: ``[n]``, whether each text was trained on.
        texts: ``[n]``; without them words are not measured, and `warning` says that they were not.
        dates: ``[n]`` numbers such as years; later ones are taken for non-members.
        loss: ``[n]`` mean loss of each text, such as `TokenLosses.mean`; low for members.
        min_k: ``[n]``, such as `TokenLosses.min_k`; high for members.
        zlib_ratio: ``[n]``, such as `TokenLosses.zlib_ratio`; low for members.
        groups: ``[n]``, such as the document; kept whole in folds and resamples.
        C: inverse strength of the probes' penalty, on standardised columns.
        fpr: at which the true-positive rates are told.
        folds: for the probes and for the bag of words.
        level: of the intervals.
        seed: of folds and resamples.

    Raises:
        InputError: no activations, one class only, NaN (its row is named), lengths that differ, fewer groups than folds.
    """
    if not activations:
        raise InputError("there are no activations to audit; give at least one site.")
    labels = as_positives(members, n=len(next(iter(activations.values()))), name="members")
    if labels.all() or not labels.any():
        raise InputError(f"all {len(labels)} rows are {'members' if labels[0] else 'non-members'}; both kinds are needed.")
    codes = labels.astype(np.int64)
    fold_of = grouped_folds(len(labels), classes=codes, groups=groups, folds=folds, seed=seed)
    nested = choose_in_folds(list(activations.values()), codes, fold_of, C=C, groups=groups, seed=seed)
    each = [cross_validated_auroc_statistic(row, labels, fold_of) for row in nested.by_layer]
    by_layer = estimates(bootstrap(each, groups=groups, seed=seed), level=level, simultaneous=True)
    names = list(activations)

    def statistic(values: Any, fitted: bool) -> Statistic:
        return cross_validated_auroc_statistic(values, labels, fold_of) if fitted else auroc_statistic(values, labels)

    def attack(name: str, values: Any, *, fitted: bool = False) -> Attack:
        numbers = as_floats(values, name=name)
        check_length(numbers, n=len(labels), name=name)
        auroc = interval(statistic(numbers, fitted), groups=groups, level=level, seed=seed)
        return Attack(name=name, auroc=auroc, tpr=tpr_at_fpr(numbers, labels, fpr=fpr, level=level))

    oriented = {"loss": (loss, -1.0), "min_k": (min_k, 1.0), "zlib_ratio": (zlib_ratio, -1.0)}
    baselines = [attack(name, sign * as_floats(x, name=name)) for name, (x, sign) in oriented.items() if x is not None]
    without_model: dict[str, Floats] = {}
    if texts is not None:
        check_length(np.asarray(texts, dtype=object), n=len(labels), name="texts")
        without_model[_WORDS] = _words(texts, codes, fold_of, groups, seed)
    if dates is not None:
        without_model["dates"] = -as_floats(dates, name="dates")
    blind = [attack(name, values, fitted=name == _WORDS) for name, values in without_model.items()]
    probe = attack("probe", nested.scores, fitted=True)
    over = None
    if blind:
        strongest = max(blind, key=lambda one: one.auroc.value).name
        pair = statistic(nested.scores, True), statistic(without_model[strongest], strongest == _WORDS)
        over = difference(*pair, groups=groups, level=level, seed=seed)
    return Membership(
        layers=dict(zip(activations, by_layer, strict=True)),
        chosen=names[int(np.argmax([one.value for one in by_layer]))],
        by_fold=tuple(names[layer] for layer in nested.chosen),
        corrected=probe.auroc,
        fpr=fpr,
        probe=probe,
        baselines=tuple(baselines),
        blind=tuple(blind),
        over_best_blind=over,
        warning=_warning(probe, blind, labels, measured_words=texts is not None),
    )


def _words(texts: Sequence[str], codes: Ints, folds: Ints, groups: Any, seed: int) -> Floats:
    found = np.empty(len(codes))
    for fold in np.unique(folds):
        held, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        inside = None if groups is None else np.asarray(groups)[rest]
        fitted = fit_bag_of_words([texts[row] for row in rest.tolist()], codes[rest], groups=inside, seed=seed)
        found[held] = fitted.scores([texts[row] for row in held.tolist()])
    return standard_in_folds(found, folds)


def _warning(probe: Attack, blind: Sequence[Attack], labels: Bools, *, measured_words: bool) -> str:
    sentences = [
        f"Members and non-members differ by {one.name} alone (AUROC {one.auroc}), which has seen no model: on this set an attack measures that "
        f"difference, and memory only as far as it goes beyond. Draw both kinds from one source and time."
        for one in blind
        if one.auroc.low > 0.5 + _MARGIN
    ]
    sentences += [_below_chance(one) for one in blind if one.auroc.high < 0.5 - _MARGIN]
    sentences += [_below_chance(probe)] if probe.auroc.high < 0.5 else []
    if not measured_words:
        sentences.append("The texts were not given, so whether members and non-members differ by words alone was not measured.")
    if min(labels.sum(), (~labels).sum()) < 100:
        sentences.append(
            f"Only {int(labels.sum())} members and {int((~labels).sum())} non-members: rates at few false positives are coarse."
        )
    return " ".join(sentences)


def _below_chance(one: Attack) -> str:
    if one.name == "dates":
        return (
            f"Members and non-members differ by dates alone, the other way round than expected (AUROC {one.auroc}): members are the later ones. "
            f"On this set an attack measures that difference. Draw both kinds from one source and time."
        )
    what = "The probe" if one.name == "probe" else f"The {one.name}"
    return (
        f"{what} does worse than chance on rows that it was not fitted on (AUROC {one.auroc}), which noise seldom does: such rows are like "
        f"fitted ones of the other kind, as in near copies that hold one of each. Name what belongs together with groups=."
    )
