r"""Control tasks: could the probe have memorised the rows instead of reading the label?

Hewitt and Liang 2019, "Designing and Interpreting Probes with Control Tasks" (arXiv:1909.03368). A control task gives every unit (a word
type, a city, a template) one random label, the same in fitted and held-out rows. A probe can only solve it by remembering units, so

    selectivity = accuracy on the task - accuracy on the control task

is what the probe's accuracy owes to the task. Random labels are drawn with the task's own class shares in the fitted rows; many draws
are fitted as one batch.

A control label can be remembered only where a unit has rows on both sides, so rows are split inside units here, which is the opposite of
what other measures do; held-out rows whose unit was not fitted are left out and counted. A task whose label is constant inside every
unit is itself of the control's kind: memorising units solves it too, so only the difference says anything. ``constant_inside`` tells.
"""

import dataclasses
from typing import Any

import numpy as np
import torch
from scipy import stats

from transect.errors import InputError
from transect.measure._inputs import Bools, Floats, Ints, as_floats, as_groups, check_length
from transect.measure._rows import as_rows, two_classes
from transect.measure.controls import null_estimate
from transect.measure.estimate import Estimate
from transect.measure.intervals import interval
from transect.measure.statistic import mean_statistic
from transect.probes import Fitter, Logistic, resampled_scores

_TRIES = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selectivity:
    """A probe's accuracy on its task and on control tasks.

    Args:
        real: accuracy on held-out rows, with its interval over units.
        control: mean accuracy on the control tasks, and the central spread of the draws.
        selectivity: real minus control, with an interval for rows (whole units drawn) and draws together.
        draws: how many control tasks.
        n_units: units with rows on both sides.
        left_out: held-out rows whose unit was not fitted.
        constant_inside: share of the units whose label is constant, so that memorising them solves the task too.
    """

    real: Estimate
    control: Estimate
    selectivity: Estimate
    draws: int
    n_units: int
    left_out: int
    constant_inside: float

    @property
    def sentence(self) -> str:
        """The finding, ready to print."""
        text = f"accuracy {self.real} on the task and {self.control} on {self.draws} control tasks: selectivity {self.selectivity}."
        if self.constant_inside == 1:
            text += " The label is constant inside every unit, so memorising units could solve the task as well."
        return text

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        numbers = {name: getattr(self, name).to_json() for name in ("real", "control", "selectivity")}
        counts = {name: getattr(self, name) for name in ("draws", "n_units", "left_out", "constant_inside", "sentence")}
        return numbers | counts


def control_selectivity(
    x: Any,
    labels: Any,
    units: Any,
    *,
    held_out: Any = None,
    share: float = 0.5,
    fitter: Fitter | None = None,
    regularization: float | None = 1.0,
    draws: int = 50,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Selectivity:
    """Accuracy on the task minus accuracy on control tasks (see the head of this module).

    Args:
        x: ``[n, d]`` activations, an array or a tensor on any device.
        labels: ``[n]`` of two classes.
        units: ``[n]``, what a memorising probe would remember: the word type, the city, the template.
        held_out: ``[n]`` booleans, rows to score; None draws them inside each unit.
        share: of each unit's rows to hold out where they are drawn.
        fitter: the probe; `Logistic` by default.
        regularization: its strength for rows scaled to a root mean square of one; None for a fitter that has none.
        draws: of control tasks.
        level: of the intervals.
        resamples: of the bootstrap over units.
        seed: of everything drawn.

    Raises:
        InputError: NaN (its row is named), not two classes, fewer than two draws, or no unit with rows on both sides: a label of one row
            or of one side cannot be remembered.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> labels, units = np.arange(400) % 2, np.arange(400) // 10
        >>> x = rng.normal(size=(400, 3))
        >>> x[:, 0] += 4 * labels
        >>> found = control_selectivity(x, labels, units, draws=20)
        >>> found.selectivity.low > 0.3
        True
    """
    rows = as_rows(x)
    codes, _ = two_classes(labels, n=len(rows))
    unit_of, n_all = as_groups(units, n=len(rows))
    if draws < 2:
        raise InputError(f"draws must be at least 2, for their spread, got {draws}; 50 is usual.")
    rng = np.random.default_rng(seed)
    mask = _split(unit_of, held_out, share=share, rng=rng)
    known = np.isin(unit_of, unit_of[~mask])
    scored = mask & known
    shared = np.unique(unit_of[scored])
    if len(shared) < 2:
        raise InputError(
            f"a control task needs units with rows on both sides, got {len(shared)} among {n_all} units of {len(rows)} rows. Its label is "
            f"constant inside a unit, so a probe can only remember it from fitted rows of that unit: give coarser units, or split rows "
            f"inside units instead of holding whole ones out."
        )
    if len(np.unique(codes[~mask])) < 2:
        raise InputError(f"both classes are needed among the {int((~mask).sum())} fitted rows; hold other rows out.")
    control = _control_labels(unit_of, ~mask, codes, draws=draws, rng=rng)
    targets = np.concatenate([codes[:, None], control], 1)
    picked, fitted = (torch.from_numpy(side).to(rows.device) for side in (scored, ~mask))
    probe = Logistic() if fitter is None else fitter
    scores = resampled_scores(probe, rows[fitted], targets[~mask], rows[picked], regularization=regularization, classes=(0, 1))
    right = ((scores > 0) == targets[scored].astype(bool)).astype(np.float64)
    inside = unit_of[scored]
    real = interval(
        mean_statistic(right[:, 0], name="accuracy", bounds=(0.0, 1.0)), groups=inside, level=level, resamples=resamples, seed=seed
    )
    pure = [len(np.unique(codes[unit_of == unit])) == 1 for unit in shared]
    return Selectivity(
        real=real,
        control=null_estimate(right[:, 1:].mean(axis=0), what="control tasks", level=level),
        selectivity=_selectivity(right, inside, level=level, resamples=resamples, seed=seed),
        draws=draws,
        n_units=len(shared),
        left_out=int((mask & ~known).sum()),
        constant_inside=float(np.mean(pure)),
    )


def _selectivity(right: Floats, inside: Ints, *, level: float, resamples: int, seed: int) -> Estimate:
    """The interval over units of each row's own difference, widened by what so many draws leave undecided."""
    gap = right[:, 0] - right[:, 1:].mean(axis=1)
    over_units = interval(
        mean_statistic(gap, name="selectivity", bounds=(-1.0, 1.0)), groups=inside, level=level, resamples=resamples, seed=seed
    )
    each, count = right[:, 1:].mean(axis=0), right.shape[1] - 1
    drawn = float(stats.t.ppf((1 + level) / 2, count - 1) * each.std(ddof=1) / np.sqrt(count))
    low = max(over_units.value - float(np.hypot(over_units.value - over_units.low, drawn)), -1.0)
    high = min(over_units.value + float(np.hypot(over_units.high - over_units.value, drawn)), 1.0)
    return dataclasses.replace(over_units, low=low, high=high, method=f"{over_units.method}; and Student's t over {count} control tasks")


def _split(unit_of: Ints, held_out: Any, *, share: float, rng: np.random.Generator) -> Bools:
    if held_out is not None:
        mask = as_floats(held_out, name="held_out").astype(bool)
        check_length(mask, n=len(unit_of), name="held_out")
        return mask
    if not 0 < share < 1:
        raise InputError(f"share must lie between 0 and 1, got {share}; 0.5 is usual.")
    order = rng.permutation(len(unit_of))
    order = order[np.argsort(unit_of[order], kind="stable")]
    size = np.bincount(unit_of)
    place = np.arange(len(order)) - np.repeat(np.cumsum(size) - size, size)
    mask = np.zeros(len(unit_of), dtype=bool)
    # Of two rows or more at least one is fitted and one held out; a row that is alone in its unit is fitted.
    most = np.where(size > 1, np.clip(np.rint(share * size), 1, np.maximum(size - 1, 1)), 0)
    mask[order] = place < np.repeat(most, size)
    return mask


def _control_labels(unit_of: Ints, fitted: Bools, codes: Ints, *, draws: int, rng: np.random.Generator) -> Ints:
    """``[n, draws]``; drawn again where all fitted rows came out alike, for then there is nothing to fit."""
    chance, n_units = codes[fitted].mean(), int(unit_of.max()) + 1
    drawn = np.empty((len(codes), draws), dtype=np.int64)
    for column in range(draws):
        for _ in range(_TRIES):
            drawn[:, column] = (rng.random(n_units) < chance)[unit_of]
            if len(np.unique(drawn[fitted, column])) == 2:
                break
        else:
            raise InputError(
                f"in {_TRIES} tries no control task gave the fitted units both labels; there are too few units, or too few of a class."
            )
    return drawn
