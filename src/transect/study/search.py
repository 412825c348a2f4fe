"""Fitting at every site and strength, and choosing among them on development rows only."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import torch

from transect.data import group_folds
from transect.errors import InputError
from transect.linear import Readout
from transect.measure import Choice, choose
from transect.measure.selection import fold_metric
from transect.probes import Fitter, Inside, Sweep, sweep
from transect.study.prepare import Part
from transect.study.statistics import Judge


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Search:
    """One fitter on one table's development rows.

    Args:
        fitter: what was fitted.
        fits: every site, strength and fold.
        choice: the site and strength that validation chose.
        readouts: for each site, the fit on all development rows at the strength that is best there.
        regularizations: that strength, for each site; None for a fitter that has none.
    """

    fitter: Fitter
    fits: Sweep
    choice: Choice
    readouts: Mapping[str, Readout]
    regularizations: Mapping[str, float | None]

    @property
    def name(self) -> str:
        """The fitter's name."""
        return type(self.fitter).__name__

    @property
    def site(self) -> str:
        """The chosen site."""
        return self.fits.sites[self.choice.site]

    @property
    def readout(self) -> Readout:
        """The chosen probe, fitted on all development rows."""
        return self.readouts[self.site]

    def validation(self, site: str) -> float:
        """The validation score of a site at its best strength."""
        return float(self.choice.table[self.fits.sites.index(site)].max())


def folds_of(part: Part, *, folds: int, seed: int) -> np.ndarray:
    """``[n]`` fold of each row of a table; -1 for rows that take no part in choosing.

    Raises:
        InputError: fewer groups than folds.
    """
    codes = None if part.table.kind == "number" else part.targets[part.development]
    found = np.full(len(part.table), -1, dtype=np.int64)
    found[part.development] = group_folds(part.groups[part.development], codes, folds=folds, seed=seed, classes=part.table.classes)
    return found


def inside_of(part: Part, folds: np.ndarray, judge: Judge) -> Inside:
    """The judge's metric inside the rows that a fold leaves; of two folds, each is halved by group, where its groups allow it."""
    parts, names = folds.copy(), np.unique(folds[part.development])
    for name in names if len(names) == 2 else ():
        rows = np.flatnonzero(folds == name)
        codes = None if part.table.kind == "number" else part.targets[rows]
        try:
            parts[rows] = 2 * name + group_folds(part.groups[rows], codes, folds=2, seed=judge.seed)
        except InputError:  # nothing to choose by then; the caller sees it in the sweep
            parts[rows] = 2 * name
    return Inside(parts=parts, measure=lambda scores, rows: fold_metric(scores, part.targets[rows], kind=judge.kind))


def search(
    activations: Mapping[str, torch.Tensor],
    part: Part,
    folds: np.ndarray,
    fitter: Fitter,
    judge: Judge,
    *,
    inside: Inside | None = None,
    advance: Callable[[], None],
) -> Search:
    """Fit everywhere, choose, and fit the best of each site again on all development rows.

    Args:
        activations: site name to ``[n, d]``, the rows of the part's table.
        part: the table and its rows' parts.
        folds: ``[n]``, by `folds_of`.
        fitter: the probe to fit; its strength is varied.
        judge: the metric.
        inside: what to measure for a choice that is made inside each fold; None for nothing.
        advance: called once for every site that is done.
    """
    fits = sweep(activations, part.targets, folds=folds, fitter=fitter, classes=part.table.classes, inside=inside, advance=advance)
    rows = part.development
    choice = choose(fits.scores[:, :, rows], part.targets[rows], folds[rows], strengths=fits.penalties, kind=judge.kind)
    best = dict(zip(fits.sites, choice.strength_at.tolist(), strict=True))
    readouts = {site: fits.readout(site, strength) for site, strength in best.items()}
    return Search(
        fitter=fitter,
        fits=fits,
        choice=choice,
        readouts=readouts,
        regularizations={site: fits.regularization(strength) for site, strength in best.items()},
    )
