"""The transfer matrix: every training table, test table and site."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from transect.capture import Activations
from transect.errors import InputError
from transect.linear import Readout
from transect.measure import Estimate, cosine, mahalanobis_cosine, transfer_status
from transect.measure.transfer import Status
from transect.probes import fit_readout
from transect.study.prepare import Cast, Part, scored_rows
from transect.study.search import Search
from transect.study.statistics import Judge


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Pair:
    """A probe fitted on one table and scored on another, at one site.

    Args:
        train: name of the table it was fitted on.
        test: name of the table it was scored on.
        site: where it reads.
        n: rows scored.
        n_excluded: rows left out, because they share a group or a text with rows it was fitted on.
        estimate: its score.
        cosine: with the direction fitted on the test table itself; None where there is not one direction each.
        mcs: the same under the covariance of the test table's activations.
        status: what the verdict's rule makes of it.
    """

    train: str
    test: str
    site: str
    n: int
    n_excluded: int
    estimate: Estimate
    cosine: float | None
    mcs: float | None
    status: Status | None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Fitted:
    """A table as a training table: its readout at each site, and the groups that were fitted on."""

    part: Part
    name: str
    readouts: Mapping[str, Readout]
    groups: np.ndarray


def transfer_matrix(
    parts: Cast, found: Search, activations: Mapping[str, Activations], judge: Judge, *, advance: Callable[[], None]
) -> tuple[Pair, ...]:
    """Fit on every table and score on every table, at every site, at the strengths that the main search chose.

    Args:
        parts: all tables.
        found: the main search.
        activations: of each table, by the table's name.
        judge: the metric.
        advance: called once for every site and training table that is done.
    """
    tables = [(parts.train, parts.train.name)]
    tables += [(part, _component(part)) for part in parts.components]
    tables += [(part, part.name) for part in parts.tests]
    fitted = [_fit(part, name, found, activations[part.name], main=part is parts.train) for part, name in tables]
    pairs: list[Pair] = []
    for one in fitted:
        if one is None:
            continue
        for part, name in tables:
            reference = next((other for other in fitted if other is not None and other.name == name), None)
            pairs += _score(one, part, name, reference, activations[part.name], judge)
            advance()
    return tuple(_with_status(pair, pairs, judge) for pair in pairs)


def _component(part: Part) -> str:
    return str(part.table.dataset[part.development[0]])


def _fit(part: Part, name: str, found: Search, acts: Activations, *, main: bool) -> _Fitted | None:
    """Readouts at every site; None for a table whose development rows cannot be fitted (too few groups or classes)."""
    groups = np.unique(part.groups[part.development])
    if main:
        return _Fitted(part=part, name=name, readouts=found.readouts, groups=groups)
    targets = part.targets[part.development]
    if len(np.unique(targets)) < (2 if part.table.kind == "number" else len(part.table.classes or ())):
        return None
    readouts = {}
    for site in found.fits.sites:
        x = acts[site][part.development]
        readouts[site] = fit_readout(found.fitter, x, targets, classes=part.table.classes, regularization=found.regularizations[site])
    return _Fitted(part=part, name=name, readouts=readouts, groups=groups)


def _score(one: _Fitted, part: Part, name: str, reference: _Fitted | None, acts: Activations, judge: Judge) -> list[Pair]:
    allowed = scored_rows(part, one.groups)
    own = part.test if name == one.name else np.union1d(part.development, part.test)
    rows = np.intersect1d(allowed, own)
    sites = list(one.readouts)
    targets, groups = part.targets[rows], part.groups[rows]
    try:
        statistics = [judge.statistic(one.readouts[site].scores(acts[site][rows]), targets) for site in sites]
    except InputError:  # one class or nothing is left to score on; the caller's count of excluded rows says why
        return []
    pairs = []
    for site, estimate in zip(sites, judge.each(statistics, groups), strict=True):
        alike = _alike(one, reference, site, acts, part)
        excluded = len(own) - len(rows)
        pairs.append(
            Pair(
                train=one.name, test=name, site=site, n=len(rows), n_excluded=excluded, estimate=estimate,
                cosine=alike[0], mcs=alike[1], status=None,
            )
        )  # fmt: skip
    return pairs


def _alike(one: _Fitted, reference: _Fitted | None, site: str, acts: Activations, part: Part) -> tuple[float | None, float | None]:
    """Cosine and Mahalanobis cosine with the direction fitted on the test table, on test rows that neither was fitted on."""
    if reference is None or len(one.readouts[site].weight) != 1:
        return None, None
    first, second = one.readouts[site].weight[0], reference.readouts[site].weight[0]
    if not (first.any() and second.any()):
        return None, None
    rows = np.intersect1d(scored_rows(part, one.groups), part.test)
    mcs = mahalanobis_cosine(first, second, acts[site][rows]) if len(rows) > 2 else np.nan
    return cosine(first, second), float(mcs) if np.isfinite(mcs) else None


def _with_status(pair: Pair, pairs: Sequence[Pair], judge: Judge) -> Pair:
    home = next((other for other in pairs if other.train == other.test == pair.train and other.site == pair.site), None)
    if home is None or pair.train == pair.test:
        return pair
    return dataclasses.replace(pair, status=transfer_status(pair.estimate, home.estimate, metric=judge.metric))


def matrix_cells(parts: Cast) -> int:
    """How often `transfer_matrix` calls ``advance`` at most."""
    return (1 + len(parts.components) + len(parts.tests)) ** 2


def tensors(acts: Activations) -> dict[str, torch.Tensor]:
    """Every site's activations as a plain mapping."""
    return {site: acts[site] for site in acts.sites}
