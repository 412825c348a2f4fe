"""Folds and held-out parts made of whole groups.

Every part gets its share of every class, as well as whole groups allow. Groups with the same class counts are
interchangeable, so they are shuffled and dealt out in equal numbers; only what is left over is placed one by one,
largest first, where it is missed most. That makes a million groups a matter of a second or two.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from transect.data.grouping import factorize
from transect.errors import InputError

_STRATA_OF_NUMBERS = 5


def group_folds(
    groups: np.ndarray, codes: np.ndarray | None, *, folds: int = 5, seed: int = 0, classes: Sequence[Any] | None = None
) -> np.ndarray:
    """Folds for cross-validation: each group lies in one fold, and folds have equal shares of each class where possible.

    Args:
        groups: ``[n]`` group of each row, names or numbers.
        codes: ``[n]`` integer class codes, or numbers (spread evenly by size), or None.
        folds: how many.
        seed: another seed, another deal.
        classes: the names of the codes, for messages.

    Returns:
        ``[n]`` int64, the fold of each row, 0 to folds - 1.

    Raises:
        InputError: fewer groups than folds, or a class that lies in a single group, so that it could not be both learnt
            and tested.

    Examples:
        >>> group_folds(np.array(["a", "a", "b", "b", "c", "c"]), np.array([0, 1, 0, 1, 0, 1]), folds=3).tolist()
        [1, 1, 2, 2, 0, 0]
    """
    if folds < 2:
        raise InputError(f"folds must be at least 2, got {folds}.")
    ids = factorize(groups)
    n_groups = int(ids.max()) + 1 if len(ids) else 0
    if n_groups < folds:
        raise InputError(
            f"{folds} folds need at least {folds} groups, but there are {n_groups} (rows that share a group or a text stay together). "
            f"Ask for at most {n_groups} folds, or bring more groups."
        )
    return _checked(ids, codes, np.full(folds, 1 / folds), tested=range(folds), seed=seed, classes=classes)


def split_by_group(
    groups: np.ndarray, codes: np.ndarray | None, *, test: float = 0.3, seed: int = 0, classes: Sequence[Any] | None = None
) -> np.ndarray:
    """A held-out part: whole groups, about the asked share of each class.

    Args:
        groups: ``[n]`` group of each row, names or numbers.
        codes: ``[n]`` integer class codes, or numbers (spread evenly by size), or None.
        test: the share of rows to hold out, between 0 and 1.
        seed: another seed, another draw.
        classes: the names of the codes, for messages.

    Returns:
        ``[n]`` bool, True for rows held out.

    Raises:
        InputError: a share outside (0, 1), a single group, or a class that would be in the held-out part only.

    Examples:
        >>> held_out = split_by_group(np.arange(10), np.array([0, 1] * 5), test=0.4)
        >>> int(held_out.sum())
        4
    """
    if not 0 < test < 1:
        raise InputError(f"test must be a share between 0 and 1, got {test!r}; 0.3 holds out 30% of the rows.")
    ids = factorize(groups)
    if len(ids) == 0 or ids.max() == 0:
        raise InputError(
            "all rows are in one group (rows that share a group or a text stay together), so none can be held out; bring more groups."
        )
    return _checked(ids, codes, np.array([1 - test, test]), tested=(1,), seed=seed, classes=classes) == 1


def _checked(
    ids: np.ndarray, codes: np.ndarray | None, shares: np.ndarray, *, tested: Sequence[int], seed: int, classes: Sequence[Any] | None
) -> np.ndarray:
    if codes is not None and len(codes) != len(ids):
        raise InputError(f"groups and codes must have one length, got {len(ids)} and {len(codes)}.")
    strata = _strata(codes, len(ids))
    part = _assign(ids, strata, shares, seed=seed)
    parts, counts = np.unique(part, return_counts=True)
    if len(parts) < len(shares):
        raise InputError(
            f"the groups cannot be spread over {len(shares)} parts: the sizes would be {counts.tolist()}. Ask for fewer, or bring more "
            f"groups."
        )
    if codes is not None and np.issubdtype(np.asarray(codes).dtype, np.integer):
        _refuse_unlearnable(ids, np.asarray(codes), part, tested, classes)
    return part


def _refuse_unlearnable(ids: np.ndarray, codes: np.ndarray, part: np.ndarray, tested: Sequence[int], classes: Sequence[Any] | None) -> None:
    """Refuse a class that lies within one part that is tested while the others are learnt from."""
    for code in np.unique(codes).tolist():
        rows = codes == code
        if len(np.unique(part[rows])) > 1 or part[rows][0] not in tested:
            continue
        name = repr(classes[code]) if classes is not None else f"number {code}"
        raise InputError(
            f"the class {name} has {int(rows.sum())} rows in {len(np.unique(ids[rows]))} group(s), so it would be tested without ever "
            f"having been learnt. Bring more groups with this class, or remove its rows."
        )


def _strata(codes: np.ndarray | None, n: int) -> np.ndarray:
    if codes is None:
        return np.zeros(n, dtype=np.int64)
    codes = np.asarray(codes)
    if np.issubdtype(codes.dtype, np.floating):
        rank = np.empty(n, dtype=np.int64)
        rank[np.argsort(codes, kind="stable")] = np.arange(n)
        return rank * _STRATA_OF_NUMBERS // max(n, 1)
    return factorize(codes)


def _assign(ids: np.ndarray, strata: np.ndarray, shares: np.ndarray, *, seed: int) -> np.ndarray:
    """``[n]`` the part of each row, so that each part has its share of each stratum as nearly as whole groups allow."""
    n_groups, n_strata = int(ids.max()) + 1, int(strata.max()) + 1
    cells, counts = np.unique(ids * n_strata + strata, return_counts=True)
    cell_group, cell_stratum = cells // n_strata, cells % n_strata
    starts = np.searchsorted(cell_group, np.arange(n_groups))
    kinds = _kinds(cell_stratum, counts, starts)
    shuffled = np.random.default_rng(seed).permutation(n_groups)
    part = np.full(n_groups, -1, dtype=np.int64)
    ordered = shuffled[np.argsort(kinds[shuffled], kind="stable")]
    for members in np.split(ordered, np.flatnonzero(np.diff(kinds[ordered])) + 1):
        each = np.floor(len(members) * shares + 1e-9).astype(np.int64)
        part[members[: each.sum()]] = np.repeat(np.arange(len(shares)), each)
    dealt = part[cell_group] >= 0
    have = np.zeros((len(shares), n_strata))
    np.add.at(have, (part[cell_group][dealt], cell_stratum[dealt]), counts[dealt])
    _place_rest(part, have, shuffled=shuffled, starts=starts, strata=cell_stratum, counts=counts, shares=shares)
    return part[ids]


def _kinds(strata: np.ndarray, counts: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """``[n_groups]`` equal numbers for groups with the same count in every stratum."""
    # The sum of independent 64-bit hashes of (stratum, count) is the same for the same set of them.
    hashes = (strata.astype(np.uint64) << np.uint64(32)) + counts.astype(np.uint64)
    for factor, shift in ((0xBF58476D1CE4E5B9, 30), (0x94D049BB133111EB, 27), (0x9E3779B97F4A7C15, 31)):
        hashes = (hashes ^ (hashes >> np.uint64(shift))) * np.uint64(factor)
    return np.unique(np.add.reduceat(hashes, starts), return_inverse=True)[1]


def _place_rest(
    part: np.ndarray,
    have: np.ndarray,
    *,
    shuffled: np.ndarray,
    starts: np.ndarray,
    strata: np.ndarray,
    counts: np.ndarray,
    shares: np.ndarray,
) -> None:
    """Place the groups without a part, largest first, where their classes are missed most; fills `part` and `have`."""
    total = np.bincount(strata, weights=counts)
    wanted = shares[:, None] * total
    ends = np.append(starts[1:], len(counts))
    size = np.add.reduceat(counts, starts)
    rest = shuffled[part[shuffled] < 0]
    for group in rest[np.argsort(-size[rest], kind="stable")].tolist():
        own = slice(starts[group], ends[group])
        classes, amounts = strata[own], counts[own]
        surplus = ((have[:, classes] - wanted[:, classes]) * (amounts / total[classes] ** 2)).sum(axis=1)
        rows = (have.sum(axis=1) - shares * total.sum()) * (size[group] / total.sum() ** 2)
        chosen = int(np.argmin(surplus + rows))
        part[group] = chosen
        have[chosen, classes] += amounts
