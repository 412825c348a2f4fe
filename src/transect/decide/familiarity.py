"""Does the model know what it is asked about? Two measures of how concentrated an MLP's activations are, without any label.

For an activation vector h ``[d]`` (after the gate of the MLP) with the energy shares ``p_i = h_i^2 / sum_j h_j^2``,

    inverse participation ratio   IPR = sum_i p_i^2 = sum_i h_i^4 / (sum_i h_i^2)^2     in [1 / d, 1]
    spectral entropy              H = -sum_i p_i log p_i / log d                        in [0, 1]

Few neurons carry the energy where IPR is large and H small. Something familiar is expected to light up few neurons strongly, so the
familiarity scores are IPR and ``-H``; with labels the direction is measured, and either one may turn out the other way in a model.

With labels, the best of many layers looks good by luck alone. Its floor is the same search (all layers, both directions where the
direction is not fixed) on shuffled labels, and the honest number chooses the layer on other groups than it measures.

Source: "Entity familiarity in Bielik activations" (2026), which uses both measures on post-SwiGLU activations. These are the usual
definitions of the two; the energy shares of a vector stand for the spectrum.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np

from transect.decide._folds import grouped_folds
from transect.errors import InputError
from transect.measure import Estimate, auroc_columns, correct_for_choosing, permutation_p, permute_labels, simultaneous_auroc
from transect.measure._inputs import Floats, as_floats, as_positives

Dispersion = Literal["ipr", "entropy"]
Direction = Literal["expected", "either"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Familiarity:
    """How well the dispersion of activations tells the familiar from the rest.

    Args:
        measure: ``ipr`` or ``entropy``.
        layers: AUROC at each layer of the score in its expected direction (below 0.5: the other way); intervals hold all at once.
        chosen: the layer that is farthest from 0.5; with a fixed direction, the largest.
        inverted: whether the chosen layer's score runs the other way.
        best: the AUROC there, the right way round. It was chosen on these rows.
        held_out: AUROC of "choose layer and direction" on groups that had no part in it.
        floor: 95th percentile of `best` on shuffled labels.
        p: p value of `best` among them.
        how: what was shuffled.
    """

    measure: Dispersion
    layers: Mapping[str, Estimate]
    chosen: str
    inverted: bool
    best: float
    held_out: Estimate
    floor: float
    p: float
    how: str


def inverse_participation_ratio(activations: Any) -> Floats:
    """``[n]``: IPR of rows ``[n, d]``, from ``1 / d`` (all neurons alike) to 1 (one neuron only).

    Raises:
        InputError: NaN (its row is named), or a row of zeros, whose energy has no shares.

    Examples:
        >>> inverse_participation_ratio([[1.0, 1.0, -1.0, 1.0], [0.0, 2.0, 0.0, 0.0]]).tolist()
        [0.25, 1.0]
    """
    return (_shares(activations) ** 2).sum(axis=1)


def spectral_entropy(activations: Any) -> Floats:
    """``[n]``: entropy of the energy shares of rows ``[n, d]`` over its largest value ``log d``; 0 for one neuron, 1 for all alike.

    Raises:
        InputError: as for `inverse_participation_ratio`; a width of 1.

    Examples:
        >>> (spectral_entropy([[1.0, 1.0, -1.0, 1.0], [0.0, 2.0, 0.0, 0.0]]) + 0.0).tolist()
        [1.0, 0.0]
    """
    p = _shares(activations)
    if p.shape[1] < 2:
        raise InputError("the entropy of one neuron's activations is always 0; give activations of width 2 or more.")
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=1) / np.log(p.shape[1])


def familiarity_scores(activations: Any, *, measure: Dispersion = "ipr") -> Floats:
    """``[n]``: higher where few neurons carry the energy of ``[n, d]``: IPR, or minus the spectral entropy.

    Raises:
        InputError: an unknown measure; as for `inverse_participation_ratio`.
    """
    if measure not in get_args(Dispersion):
        raise InputError(f"measure must be one of {get_args(Dispersion)}, got {measure!r}.")
    return inverse_participation_ratio(activations) if measure == "ipr" else -spectral_entropy(activations)


def evaluate_familiarity(
    activations: Mapping[str, Any],
    familiar: Any,
    *,
    measure: Dispersion = "ipr",
    direction: Direction = "either",
    groups: Any = None,
    shuffles: int = 1000,
    folds: int = 5,
    level: float = 0.95,
    seed: int = 0,
) -> Familiarity:
    """Measure familiarity scores of many layers against labels.

    Args:
        activations: site name -> ``[n, d]``, such as ``layers[*].mlp.act``.
        familiar: ``[n]``, whether each row is about something known.
        measure: ``ipr`` or ``entropy``.
        direction: ``expected`` fixes that concentrated means familiar; ``either`` lets each layer choose, and the floor pays for it.
        groups: ``[n]``, kept whole; labels are shuffled as they allow.
        shuffles: of the floor.
        folds: of the held-out choice.
        level: of the intervals.
        seed: of shuffles, folds and resamples.

    Raises:
        InputError: no activations, one class only, NaN (its row is named), fewer groups than folds.
    """
    if not activations:
        raise InputError("there are no activations to measure; give at least one site.")
    if direction not in get_args(Direction):
        raise InputError(f"direction must be 'expected' or 'either', got {direction!r}.")
    scores = np.stack([familiarity_scores(x, measure=measure) for x in activations.values()])
    labels = as_positives(familiar, n=scores.shape[1], name="familiar")
    by_layer = simultaneous_auroc(scores, labels, groups=groups, level=level, seed=seed)
    candidates = _candidates(scores, direction)
    values = auroc_columns(candidates.T, labels)
    best = int(values.argmax())
    null, how = null_of_best(scores, labels, direction=direction, groups=groups, shuffles=shuffles, seed=seed)
    fold_of = grouped_folds(len(labels), classes=labels.astype(np.int64), groups=groups, folds=folds, seed=seed)
    held_out = correct_for_choosing(
        candidates[:, None, :], labels.astype(np.int64), fold_of, strengths=[1.0], groups=groups, level=level, seed=seed
    )
    return Familiarity(
        measure=measure,
        layers=dict(zip(activations, by_layer, strict=True)),
        chosen=list(activations)[best % len(scores)],
        inverted=best >= len(scores),
        best=float(values[best]),
        held_out=held_out.corrected,
        floor=float(np.quantile(null, 0.95)),
        p=permutation_p(float(values[best]), null),
        how=how,
    )


def null_of_best(
    scores: Any, familiar: Any, *, direction: Direction = "either", groups: Any = None, shuffles: int = 1000, seed: int = 0
) -> tuple[Floats, str]:
    """``[shuffles]``: the AUROC of the best layer of ``scores [s, n]`` on each of many shuffled labellings, and what was shuffled.

    Raises:
        InputError: as for `evaluate_familiarity`.
    """
    rows = as_floats(scores, name="scores", ndim=(2,))
    labels = as_positives(familiar, n=rows.shape[1], name="familiar")
    shuffled = permute_labels(labels.astype(np.int64), groups=groups, shuffles=shuffles, seed=seed)
    null = np.stack([auroc_columns(row, shuffled.labels.T) for row in rows])
    if direction == "either":
        null = np.maximum(null, 1 - null)
    return null.max(axis=0), shuffled.how


def _candidates(scores: Floats, direction: Direction) -> Floats:
    """Both directions of a layer are two candidates, so that choosing between them is paid for like choosing a layer."""
    return np.concatenate([scores, -scores]) if direction == "either" else scores


def _shares(activations: Any) -> Floats:
    h = as_floats(activations, name="activations", ndim=(2,))
    largest = np.abs(h).max(axis=1, keepdims=True)
    if not largest.all():
        raise InputError(f"row {int(np.argmin(largest))} (counted from 0) is all zeros, so its energy has no shares; leave it out.")
    energy = (h / largest) ** 2  # so that squares neither overflow nor vanish
    return energy / energy.sum(axis=1, keepdims=True)
