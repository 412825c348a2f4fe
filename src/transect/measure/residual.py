r"""Is a probe a proxy for something simpler? Scores with a covariate taken out: text length, the model's output entropy.

"Pressure-testing deception probes" (2026) tests the entropy proxy so: the largest Spearman |rho| between score and covariate, and the
change of AUROC once the score is residualised. With covariates ``C [n, c]``, least squares of the fitted rows gives

    x_i = a + c_i B + e_i,      residual:  x_i - (c_i - mean(c)) B

B and the mean come from fitted rows and are applied to others, so no row takes part in its own correction (a fit on the rows measured
would lower the AUROC by overfitting).

What it does not say: where label and covariate go together, a residual loses what they share, whether the probe got it from the label or
from the covariate. An AUROC that stays is evidence against the proxy; one that falls is not yet evidence for it.
"""

import dataclasses
from typing import Any

import numpy as np

from transect.errors import InputError
from transect.measure._inputs import Floats, as_floats, as_groups, as_positives, check_length
from transect.measure.estimate import Estimate
from transect.measure.intervals import difference, interval
from transect.measure.statistic import auroc_statistic, spearman_statistic


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Residualiser:
    """What covariates predict linearly, learnt on some rows, to be taken out of any.

    Args:
        slopes: ``[c, d]``, how values change with each covariate.
        centre: ``[c]``, mean of the covariates where it was learnt.

    Examples:
        >>> length = np.array([1.0, 2.0, 3.0, 4.0])
        >>> fit_residualiser(10 * length, length).remove([55.0], [6.0]).round(9).tolist()
        [20.0]
    """

    slopes: Floats
    centre: Floats

    def remove(self, values: Any, covariates: Any) -> Floats:
        """Values ``[n]`` or ``[n, d]`` without what covariates ``[n]`` or ``[n, c]`` predict of them, of the same shape.

        Raises:
            InputError: NaN (its row is named), or shapes that do not fit.
        """
        given = as_floats(values, name="values", ndim=(1, 2))
        table = _table(covariates, n=len(given))
        wide = given.reshape(len(given), -1)
        if table.shape[1] != len(self.centre) or wide.shape[1] != self.slopes.shape[1]:
            raise InputError(
                f"learnt for {len(self.centre)} covariates of values of width {self.slopes.shape[1]}, got {table.shape[1]} and "
                f"{wide.shape[1]}."
            )
        return (wide - (table - self.centre) @ self.slopes).reshape(given.shape)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResidualisedAUROC:
    """AUROC with and without what covariates predict.

    Args:
        before: of the scores, with its interval.
        after: of the residuals.
        change: after minus before, paired on the same resamples.
        correlations: Spearman |rho| of the score with each covariate; NaN for a covariate that is constant.
        method: how the correction was learnt, in words.
    """

    before: Estimate
    after: Estimate
    change: Estimate
    correlations: tuple[Estimate, ...]
    method: str

    @property
    def sentence(self) -> str:
        """The finding, ready to print."""
        rho = max((one.value for one in self.correlations if not np.isnan(one.value)), default=0.0)
        return (
            f"AUROC {self.before} before and {self.after} after taking the covariates out (change {self.change}; largest |rho| {rho:.2f})."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values; what is undefined is None."""
        numbers = {name: getattr(self, name).to_json() for name in ("before", "after", "change")}
        return numbers | {"correlations": [one.to_json() for one in self.correlations], "method": self.method, "sentence": self.sentence}


def fit_residualiser(values: Any, covariates: Any) -> Residualiser:
    """Learn by least squares what covariates predict; a constant or repeated covariate changes nothing.

    Args:
        values: ``[n]`` scores, or ``[n, d]`` activations.
        covariates: ``[n]`` or ``[n, c]``.

    Raises:
        InputError: NaN (its row is named), lengths that differ, or no more rows than covariates.

    Examples:
        >>> fit_residualiser([2.0, 4.0, 6.0], [1.0, 2.0, 3.0]).slopes.round(9).tolist()
        [[2.0]]
    """
    given = as_floats(values, name="values", ndim=(1, 2))
    table = _table(covariates, n=len(given))
    if len(given) <= table.shape[1] + 1:
        raise InputError(f"{table.shape[1]} covariates need more than {table.shape[1] + 1} rows to learn from, got {len(given)}.")
    centre = table.mean(axis=0)
    around = np.where((table == table[:1]).all(axis=0), 0.0, table - centre)
    size = np.linalg.norm(around, axis=0)
    size[size == 0] = 1.0  # in units of their spread, so that a large covariate does not hide a small one from the rank decision
    wide = given.reshape(len(given), -1)
    slopes = np.linalg.lstsq(around / size, wide - wide.mean(axis=0), rcond=1e-10)[0] / size[:, None]
    return Residualiser(slopes=slopes, centre=centre)


def residualised_auroc(
    scores: Any,
    labels: Any,
    covariates: Any,
    *,
    train_scores: Any = None,
    train_covariates: Any = None,
    groups: Any = None,
    folds: int = 5,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> ResidualisedAUROC:
    """AUROC before and after taking covariates out of the scores, and how the two go together.

    Args:
        scores: ``[n]`` of held-out rows, higher for the positive class.
        labels: ``[n]``, booleans or 0 and 1.
        covariates: ``[n]`` or ``[n, c]``.
        train_scores: ``[m]`` of other rows, to learn the correction from; None learns it crosswise, from the other folds of groups.
        train_covariates: ``[m]`` or ``[m, c]``, with them.
        groups: ``[n]``; None makes each row its own group.
        folds: where it is learnt crosswise.
        level: of the intervals.
        resamples: of the group bootstrap.
        seed: of folds and draws.

    Raises:
        InputError: NaN (its row is named), one class only, lengths that differ, one of the two train arguments without the other, or
            fewer groups than folds.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> labels, length = np.arange(200) % 2, rng.normal(size=200)
        >>> found = residualised_auroc(labels + 3 * length, labels, length)
        >>> round(found.before.value, 2), round(found.after.value, 2)
        (0.64, 1.0)
    """
    values = as_floats(scores, name="scores")
    truth = as_positives(labels, n=len(values), name="labels")
    table = _table(covariates, n=len(values))
    if (train_scores is None) != (train_covariates is None):
        raise InputError("train_scores and train_covariates belong together: give both, or neither to learn the correction crosswise.")
    if train_scores is not None:
        known = as_floats(train_scores, name="train_scores")
        left = fit_residualiser(known, train_covariates).remove(values, table)
        method = f"learnt on {len(known)} other rows"
    else:
        left = _crosswise(values, table, groups, folds=folds, seed=seed)
        method = f"learnt crosswise in {folds} folds of groups"
    # A score that is nothing but the covariate leaves rounding error, which must not be ranked.
    left = np.where(np.abs(left - np.median(left)) <= 1e-10 * max(float(np.ptp(values)), np.finfo(float).tiny), np.median(left), left)
    one, two = auroc_statistic(values, truth), auroc_statistic(left, truth)
    before, after = (interval(part, groups=groups, level=level, resamples=resamples, seed=seed) for part in (one, two))
    change = difference(two, one, groups=groups, level=level, resamples=resamples, seed=seed)
    rhos = tuple(_correlation(values, column, groups, level=level, resamples=resamples, seed=seed) for column in table.T)
    return ResidualisedAUROC(before=before, after=after, change=change, correlations=rhos, method=method)


def _crosswise(values: Floats, table: Floats, groups: Any, *, folds: int, seed: int) -> Floats:
    units, n_units = as_groups(groups, n=len(values))
    if not 2 <= folds <= n_units:
        raise InputError(f"folds must lie between 2 and the number of groups, {n_units}, got {folds}.")
    fold_of = (np.random.default_rng(seed).permutation(n_units) % folds)[units]
    left = np.empty_like(values)
    for fold in range(folds):
        here = fold_of == fold
        left[here] = fit_residualiser(values[~here], table[~here]).remove(values[here], table[here])
    return left


def _correlation(values: Floats, column: Floats, groups: Any, *, level: float, resamples: int, seed: int) -> Estimate:
    """|rho|: the interval of rho folded at zero."""
    if (column == column[0]).all():
        return Estimate.bare(np.nan, n=len(values), method="the covariate is constant")
    rho = interval(spearman_statistic(values, column), groups=groups, level=level, resamples=resamples, seed=seed)
    ends = sorted((abs(rho.low), abs(rho.high)))
    low = 0.0 if rho.low <= 0 <= rho.high else ends[0]
    return dataclasses.replace(rho, value=abs(rho.value), low=low, high=ends[1], method=f"{rho.method}, folded at 0")


def _table(covariates: Any, *, n: int) -> Floats:
    table = as_floats(covariates, name="covariates", ndim=(1, 2))
    check_length(table, n=n, name="covariates")
    return table.reshape(n, -1)
