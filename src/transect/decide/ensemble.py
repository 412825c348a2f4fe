"""Several models answer, each with a learnt confidence: the answer of the ensemble.

Each model has a linear predictor of whether its own answer is right, from its hidden states and its normalised probabilities of the
classes, and its vote counts as much as that confidence c_j (a probability):

    answer(x) = argmax_k sum_j c_j(x) * [answer_j(x) = k]                (weighting="votes")
    answer(x) = argmax_k sum_j c_j(x) * p_j(k | x)                       (weighting="probabilities")

or the most confident model answers alone (``weighting="best"``). Ties go to the class with the larger mean probability.

Source: Guo 2025, "LENS: Learning Ensemble Confidence from Neural States for Multi-LLM Answer Integration". The paper's abstract fixes
the predictor and its inputs; how confidences are combined is a setting here.
"""

import dataclasses
from typing import Any, Literal, get_args

import numpy as np

from transect.decide._folds import fit_in_own_space
from transect.errors import InputError
from transect.linear import Readout
from transect.measure import Estimate, Statistic, accuracy_statistic, bootstrap, difference, estimates
from transect.measure._inputs import Floats, Ints, as_classes, as_floats, as_positives, check_length

Weighting = Literal["votes", "probabilities", "best"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EnsembleScore:
    """The ensemble beside what it must beat, on the same rows.

    Args:
        accuracy: of the ensemble.
        majority: of the plain majority vote.
        mean_probability: of the largest mean probability.
        singles: of each model.
        best_single: index of the model to compare with: the one given, or the best on these rows, which flatters it.
        over_majority: accuracy of the ensemble minus that of the vote, paired.
        over_mean_probability: the same for the mean probability.
        over_best_single: the same for that model.
    """

    accuracy: Estimate
    majority: Estimate
    mean_probability: Estimate
    singles: tuple[Estimate, ...]
    best_single: int
    over_majority: Estimate
    over_mean_probability: Estimate
    over_best_single: Estimate


def confidence_features(hidden: Any, probabilities: Any) -> Floats:
    """``[n, d + k]``: a model's hidden states ``[n, d]`` beside its probabilities ``[n, k]``, each row of them summing to 1.

    Raises:
        InputError: lengths that differ, negative probabilities, NaN (its row is named).
    """
    states = as_floats(hidden, name="hidden", ndim=(2,))
    shares = as_floats(probabilities, name="probabilities", ndim=(2,))
    check_length(shares, n=len(states), name="probabilities")
    total = shares.sum(axis=1, keepdims=True)
    if (shares < 0).any() or not (total > 0).all():
        raise InputError("probabilities must be at least 0 and not all 0 in a row; give those of the classes, not logits.")
    return np.concatenate([states, shares / total], axis=1)


def fit_confidence(hidden: Any, probabilities: Any, right: Any, *, C: float = 1.0) -> Readout:
    """A linear predictor of whether one model's answer is right; a logistic readout of `confidence_features`.

    Args:
        hidden: ``[n, d]``, training rows.
        probabilities: ``[n, k]``.
        right: ``[n]``, whether the model's answer was right.
        C: inverse strength of the penalty, on standardised columns.

    Raises:
        InputError: the model was always right or never, so there is nothing to predict; as for `confidence_features`.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> hidden = rng.standard_normal((200, 3))
        >>> readout = fit_confidence(hidden, np.full((200, 2), 0.5), hidden[:, 0] > 0)
        >>> readout.width, readout.classes
        (5, (False, True))
    """
    rows = confidence_features(hidden, probabilities)
    labels = as_positives(right, n=len(rows), name="right")
    if labels.all() or not labels.any():
        raise InputError(
            f"this model was {'always' if labels.all() else 'never'} right on {len(labels)} rows, so its confidence is no question."
        )
    return fit_in_own_space(rows, labels, C=C)


def ensemble(probabilities: Any, confidences: Any, *, weighting: Weighting = "votes") -> Ints:
    """The class each row is answered with, ``[n]``.

    Args:
        probabilities: ``[m, n, k]`` of m models; a row is normalised first. Answers alone go in as one-hot rows.
        confidences: ``[m, n]``, how likely each model's answer is right, at least 0.
        weighting: see the head of this module.

    Raises:
        InputError: shapes that do not fit, negative numbers, NaN.

    Examples:
        >>> probabilities = [[[0.9, 0.1]], [[0.4, 0.6]], [[0.4, 0.6]]]
        >>> ensemble(probabilities, [[0.9], [0.3], [0.3]]).tolist(), ensemble(probabilities, [[0.5], [0.5], [0.5]]).tolist()
        ([0], [1])
    """
    shares = _as_shares(probabilities)
    trust = _by_model(confidences, "confidences", ndim=1)
    if trust.shape != shares.shape[:2] or (trust < 0).any():
        raise InputError(f"confidences must be [m, n] = {list(shares.shape[:2])} and at least 0, got shape {list(trust.shape)}.")
    if weighting not in get_args(Weighting):
        raise InputError(f"weighting must be one of {get_args(Weighting)}, got {weighting!r}.")
    if weighting == "best":
        return shares.argmax(axis=2)[trust.argmax(axis=0), np.arange(shares.shape[1])]
    votes = np.eye(shares.shape[2])[shares.argmax(axis=2)] if weighting == "votes" else shares
    return _winner((trust[:, :, None] * votes).sum(axis=0), shares)


def evaluate_ensemble(
    probabilities: Any,
    confidences: Any,
    labels: Any,
    *,
    weighting: Weighting = "votes",
    best_single: int | None = None,
    groups: Any = None,
    level: float = 0.95,
    seed: int = 0,
) -> EnsembleScore:
    """Measure the ensemble on rows that neither the confidences nor the choice of a model saw.

    Args:
        probabilities: as for `ensemble`.
        confidences: as for `ensemble`.
        labels: ``[n]``, the right class of each row.
        weighting: as for `ensemble`.
        best_single: the model that was best on the training rows; None compares with the best on these, which is harder to beat.
        groups: ``[n]``, kept whole in resamples.
        level: of the intervals.
        seed: of the resamples.

    Raises:
        InputError: as for `ensemble`; labels beyond the classes.
    """
    shares = _as_shares(probabilities)
    m, n, k = shares.shape
    truth = as_classes(labels, n=n, name="labels")
    if truth.max() >= k:
        raise InputError(f"labels hold class {truth.max()}, but there are probabilities of {k} classes (0 to {k - 1}).")
    single = [accuracy_statistic(one.argmax(axis=1), truth) for one in shares]
    best = int(np.argmax([statistic.value() for statistic in single])) if best_single is None else best_single
    if not 0 <= best < m:
        raise InputError(f"best_single is the index of one of {m} models, got {best}.")
    votes = np.eye(k)[shares.argmax(axis=2)].sum(axis=0)
    ours = accuracy_statistic(ensemble(shares, confidences, weighting=weighting), truth)
    vote = accuracy_statistic(_winner(votes, shares), truth)
    mean = accuracy_statistic(shares.mean(axis=0).argmax(axis=1), truth)
    found = estimates(bootstrap([ours, vote, mean, *single], groups=groups, seed=seed), level=level)

    def over(other: Statistic) -> Estimate:
        return difference(ours, other, groups=groups, level=level, seed=seed)

    return EnsembleScore(
        accuracy=found[0],
        majority=found[1],
        mean_probability=found[2],
        singles=tuple(found[3:]),
        best_single=best,
        over_majority=over(vote),
        over_mean_probability=over(mean),
        over_best_single=over(single[best]),
    )


def _as_shares(probabilities: Any) -> Floats:
    shares = _by_model(probabilities, "probabilities", ndim=2)
    total = shares.sum(axis=2, keepdims=True)
    if (shares < 0).any() or not (total > 0).all():
        raise InputError("probabilities must be at least 0 and not all 0 in a row; give those of the classes, not logits.")
    return shares / total


def _by_model(parts: Any, name: str, *, ndim: int) -> Floats:
    """What each of m models says of n rows, ``[m, n, ...]``; an error names the model and the row."""
    shapes = {np.shape(one) for one in parts}
    if len(shapes) != 1 or len(next(iter(shapes))) != ndim:
        wanted = "[m, n, k]" if ndim == 2 else "[m, n]"
        raise InputError(f"{name} must be {wanted}, alike for all models, got shapes {sorted(map(str, shapes))}.")
    return np.stack([as_floats(one, name=f"{name} of model {model}", ndim=(ndim,)) for model, one in enumerate(parts)])


def _winner(tally: Floats, shares: Floats) -> Ints:
    """The class with most; among equals the one with the larger mean probability."""
    top = np.isclose(tally, tally.max(axis=1, keepdims=True), rtol=1e-12, atol=1e-12)
    return np.where(top, shares.mean(axis=0), -1.0).argmax(axis=1)
