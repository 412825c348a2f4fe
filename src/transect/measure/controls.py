"""What a probe would score with nothing to find: shuffled labels and random directions."""

import dataclasses
from typing import Any, Literal

import numpy as np

from transect.errors import InputError
from transect.measure._inputs import Floats, Ints, as_floats, as_groups, check_length, plain
from transect.measure.estimate import Estimate


@dataclasses.dataclass(frozen=True, eq=False)
class ShuffledLabels:
    """Labellings as likely as the true one if labels had nothing to do with the examples.

    Args:
        labels: ``[p, n]``, one labelling a row, of the labels' own type.
        how: what was shuffled, in words, for the report.
        stuck: rows whose label no shuffle may change.
    """

    labels: np.ndarray[Any, Any]
    how: str
    stuck: int


def permute_labels(labels: Any, *, groups: Any = None, shuffles: int = 200, seed: int = 0) -> ShuffledLabels:
    """Shuffle labels as the design of the data allows.

    A shuffle is a fair comparison only if it could have come about had labels meant nothing. So the kind of shuffle follows
    from how labels lie in the groups:

    - no groups, or a group for each row: rows trade labels freely.
    - every group has one label throughout (a document, a speaker): whole groups trade labels; the number of groups of each
      class is kept, the number of rows is when groups have one size.
    - labels vary inside groups (a true and a false statement about each city): rows trade labels inside their group, and whole
      groups of one size trade their sets of labels. So every group that was balanced stays balanced, as the true labelling
      is: shuffling rows across such groups would compare with designs that nobody would have made. The counts of every class
      are kept exactly.

    Args:
        labels: ``[n]``, class indices or numbers.
        groups: ``[n]``; None for rows that are independent.
        shuffles: how many; the smallest p value they can give is 1 / (shuffles + 1).
        seed: of the shuffles.

    Raises:
        InputError: no shuffles asked for, lengths that differ, or labels that are all the same.

    Examples:
        >>> shuffled = permute_labels([0, 1, 0, 1], groups=["a", "a", "b", "b"], shuffles=3)
        >>> shuffled.labels[:, :2].sum(axis=1).tolist()
        [1, 1, 1]
    """
    values = plain(labels)
    as_floats(values, name="labels")
    if shuffles < 1:
        raise InputError(f"shuffles must be at least 1, got {shuffles}; 200 is usual.")
    codes, n_groups = as_groups(groups, n=len(values))
    rng = np.random.default_rng(seed)
    stuck = 0
    if (values == values[0]).all():
        raise InputError(f"all {len(values)} labels are {values[0]}, so no shuffle changes them; there is no control to run.")
    if n_groups == len(values):
        shuffled, how = rng.permuted(np.broadcast_to(values, (shuffles, len(values))), axis=1), "rows trade labels"
    elif _pure(values, codes):
        of_group = values[np.unique(codes, return_index=True)[1]]
        shuffled = rng.permuted(np.broadcast_to(of_group, (shuffles, n_groups)), axis=1)[:, codes]
        how = "whole groups trade labels"
    else:
        shuffled, stuck = _within_sizes(values, codes, shuffles=shuffles, rng=rng)
        how = "rows trade labels inside their group, and groups of one size trade their sets of labels"
    return ShuffledLabels(shuffled, how, stuck)


def permutation_p(observed: float, null: Any) -> float:
    """The p value of a measurement among the same measurements on shuffled labels: (1 + number at least as good) / (1 + all).

    One-sided, higher is better; the 1 counts the true labelling among the shuffles and keeps the test valid (Phipson and Smyth 2010).

    Examples:
        >>> permutation_p(0.9, [0.4, 0.5, 0.6])
        0.25
    """
    values = as_floats(null, name="null")
    # Equal up to rounding is equal: a shuffle that restores the true labelling must count.
    return float((1 + (values >= observed - 1e-12).sum()) / (1 + len(values)))


def permutation_p_best(observed: Any, null: Any) -> Floats:
    """One p value for each of many sites ``[s]``, corrected for having looked at all: each site against the best site of every shuffle.

    Single-step max-T of Westfall and Young (1993).

    Args:
        observed: ``[s]``.
        null: ``[s, p]``, the same measurements on p shuffles.
    """
    values = as_floats(observed, name="observed")
    shuffled = as_floats(null, name="null", ndim=(2,))
    check_length(shuffled, n=len(values), name="null")
    return np.array([permutation_p(value, shuffled.max(axis=0)) for value in values])


def null_estimate(null: Any, *, what: str, level: float = 0.95) -> Estimate:
    """The mean and the central spread of a control's values, as an `Estimate`.

    Examples:
        >>> null_estimate([0.4, 0.5, 0.6], what="random directions").method
        'mean and central 95% of 3 random directions'
    """
    values = as_floats(null, name="null")
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    words = f"mean and central {level:.0%} of {len(values)} {what}"
    return Estimate(float(values.mean()), float(low), float(high), level, method=words)


def random_directions(
    width: int, *, directions: int = 100, seed: int = 0, like: Any = None, kind: Literal["isotropic", "matched"] = "isotropic"
) -> Floats:
    """Random unit directions ``[directions, width]``.

    ``isotropic`` ones point anywhere. ``matched`` ones are Gaussian with the covariance of the activations ``like [n, width]``,
    so that they lie where the data lie; they are made as random mixtures of the centred rows, without the covariance matrix.

    Their scores' AUROCs scatter around 0.5 on both sides, for a random direction has no right way round. Compare a probe with
    the spread, not with the best of them: the best of k, either way round, is itself a search over 2k probes.

    Raises:
        InputError: an unknown kind, ``matched`` without ``like``, or widths that differ.
    """
    if kind not in {"isotropic", "matched"}:
        raise InputError(f"kind must be 'isotropic' or 'matched', got {kind!r}.")
    rng = np.random.default_rng(seed)
    if kind == "isotropic":
        drawn = rng.standard_normal((directions, width))
    else:
        if like is None:
            raise InputError("matched directions need the activations that they should be like: like=activations.")
        rows = as_floats(like, name="like", ndim=(2,))
        if rows.shape[1] != width:
            raise InputError(f"like must have width {width}, got {rows.shape[1]}.")
        drawn = rng.standard_normal((directions, len(rows))) @ (rows - rows.mean(axis=0))
    length = np.linalg.norm(drawn, axis=1, keepdims=True)
    if (length == 0).any():
        raise InputError("the activations in like are all equal, so no direction is like them.")
    return drawn / length


def _pure(values: np.ndarray[Any, Any], codes: Ints) -> bool:
    first = np.unique(codes, return_index=True)[1]
    return bool((values == values[first][codes]).all())


def _within_sizes(
    values: np.ndarray[Any, Any], codes: Ints, *, shuffles: int, rng: np.random.Generator
) -> tuple[np.ndarray[Any, Any], int]:
    by_group = np.argsort(codes, kind="stable")
    size = np.bincount(codes)
    start = np.cumsum(size) - size
    shuffled = np.empty((shuffles, len(values)), dtype=values.dtype)
    stuck = 0
    for length in np.unique(size):
        rows = by_group[start[size == length][:, None] + np.arange(length)]
        if (values[rows] == values[rows[0, 0]]).all():
            stuck += rows.size  # these groups have nothing to trade with
        for labels in shuffled:
            labels[rows] = values[rng.permuted(rng.permutation(rows), axis=1)]
    return shuffled, stuck
