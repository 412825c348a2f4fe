r"""How stable is a probe's notion of truth when the statements that are neither true nor false change sides?

"Representational stability of truth" (2025). A probe is fitted three times on the same activations: without the neither rows, with them
counted as false, and with them counted as true. What is compared, for each two of the three:

- the cosine and the angle of the directions;
- the share of judgements (score above 0) that flip on held-out true and false rows, overall and for each domain, with intervals that
  draw whole groups.

A stable notion of truth flips little: the paper saw up to 40% for statements about things no training text mentions, and at most 8% for
well-known fiction.
"""

import dataclasses
from itertools import combinations
from typing import Any, Literal

import numpy as np
import torch

from transect.errors import InputError
from transect.measure._inputs import Bools, as_floats, as_groups, check_length, plain
from transect.measure._rows import as_rows, held_out_rows
from transect.measure.estimate import Estimate
from transect.measure.intervals import auroc_interval, interval
from transect.measure.similarity import cosine
from transect.measure.statistic import mean_statistic
from transect.probes import Fitter, Logistic, fit_readout

Counted = Literal["left_out", "false", "true"]
COUNTED: tuple[Counted, ...] = ("left_out", "false", "true")
"""How the neither rows are counted."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shift:
    """What changes between two ways to count the neither rows.

    Args:
        first: one way.
        second: the other.
        cosine: of the two directions.
        degrees: their angle.
        flipped: share of held-out true and false rows judged differently, with its interval.
        by_domain: the same for each domain; empty where no domains were given.
    """

    first: Counted
    second: Counted
    cosine: float
    degrees: float
    flipped: Estimate
    by_domain: dict[str, Estimate]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RelabellingStability:
    """How a probe moves when neither rows change sides.

    Args:
        shifts: left out against false, left out against true, false against true.
        auroc: of each of the three probes on held-out true against false rows.
        n_held_out: held-out true and false rows.
        n_neither: neither rows among the fitted ones.
    """

    shifts: tuple[Shift, ...]
    auroc: dict[Counted, Estimate]
    n_held_out: int
    n_neither: int

    @property
    def largest(self) -> Shift:
        """The shift that flips most."""
        return max(self.shifts, key=lambda shift: shift.flipped.value)

    @property
    def sentence(self) -> str:
        """The finding, ready to print."""
        most = self.largest
        words = {"left_out": "left out", "false": "counted as false", "true": "counted as true"}
        text = (
            f"with {self.n_neither} neither rows {words[most.second]} instead of {words[most.first]}, {most.flipped.value:.1%} "
            f"[{most.flipped.low:.1%}, {most.flipped.high:.1%}] of {self.n_held_out} judgements flip and the direction turns by "
            f"{most.degrees:.0f} degrees"
        )
        if most.by_domain:
            name = max(most.by_domain, key=lambda domain: most.by_domain[domain].value)
            text += f"; most in {name} ({most.by_domain[name].value:.1%})"
        return text + "."

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        shifts = [
            {name: getattr(shift, name) for name in ("first", "second", "cosine", "degrees")}
            | {"flipped": shift.flipped.to_json(), "by_domain": {name: one.to_json() for name, one in shift.by_domain.items()}}
            for shift in self.shifts
        ]
        auroc = {name: one.to_json() for name, one in self.auroc.items()}
        return {"shifts": shifts, "auroc": auroc, "n_held_out": self.n_held_out, "n_neither": self.n_neither, "sentence": self.sentence}


def relabelling_stability(
    x: Any,
    truth: Any,
    *,
    groups: Any = None,
    domains: Any = None,
    held_out: Any = None,
    share: float = 0.5,
    fitter: Fitter | None = None,
    regularization: float | None = 1.0,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> RelabellingStability:
    """Fit with the neither rows left out, as false and as true, and compare (see the head of this module).

    Args:
        x: ``[n, d]`` activations, an array or a tensor on any device.
        truth: ``[n]`` words: ``"true"``, ``"false"`` or ``"neither"``.
        groups: ``[n]``; whole groups are held out and drawn. None for independent rows.
        domains: ``[n]`` names; flips are given for each as well.
        held_out: ``[n]`` booleans; None draws groups. Held-out neither rows are not used.
        share: of the groups to hold out where they are drawn.
        fitter: the probe; `Logistic` by default.
        regularization: its strength for rows scaled to a root mean square of one; None for a fitter that has none.
        level: of the intervals.
        resamples: of the group bootstrap.
        seed: of everything drawn.

    Raises:
        InputError: NaN (its row is named), another word than the three (its row is named), a word without rows, a group on both sides.
        SampleSizeError: too few groups for both classes on both sides.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> truth = np.array(["true", "false", "neither"])[np.arange(300) % 3]
        >>> x = rng.normal(size=(300, 4))
        >>> x[:, 0] += 3.0 * (truth == "true") - 3.0 * (truth == "false")
        >>> x[:, 1] += 3.0 * (truth == "neither")
        >>> relabelling_stability(x, truth).largest.degrees > 20
        True
    """
    rows = as_rows(x)
    words = plain(truth).astype(str)
    if words.ndim != 1:
        raise InputError(f"truth must have one axis, got shape {list(words.shape)}.")
    check_length(words, n=len(rows), name="truth")
    odd = np.flatnonzero(~np.isin(words, ("true", "false", "neither")))
    if len(odd):
        raise InputError(f"truth must be 'true', 'false' or 'neither', got {str(words[odd[0]])!r} in row {odd[0]} ({len(odd)} such rows).")
    missing = [word for word in ("true", "false", "neither") if not (words == word).any()]
    if missing:
        raise InputError(f"relabelling needs rows of all three kinds, got none of {missing}.")
    firm = words != "neither"
    mask = _mask(words, firm, groups, held_out=held_out, share=share, seed=seed)
    scored, fitted = mask & firm, ~mask
    if not (fitted & ~firm).any():
        raise InputError(f"all {int((~firm).sum())} neither rows are held out, so none can change sides; hold other groups out.")
    probe = Logistic() if fitter is None else fitter
    readouts = {}
    for way in COUNTED:
        used = fitted & firm if way == "left_out" else fitted
        codes = np.where(firm, words == "true", way == "true").astype(np.int64)[used]
        some = rows[torch.from_numpy(used).to(rows.device)]
        readouts[way] = fit_readout(probe, some, codes, classes=(0, 1), regularization=regularization)
    seen = rows[torch.from_numpy(scored).to(rows.device)]
    scores = {way: plain(readout.scores(seen)) for way, readout in readouts.items()}
    outside = None if groups is None else plain(groups)[scored]
    names = None if domains is None else plain(domains).astype(str)
    if names is not None:
        check_length(names, n=len(rows), name="domains")
        names = names[scored]

    def share_of(flips: Bools, some: Any) -> Estimate:
        statistic = mean_statistic(flips, name="flipped", bounds=(0.0, 1.0))
        return interval(statistic, groups=some, level=level, resamples=resamples, seed=seed)

    shifts = []
    for first, second in combinations(COUNTED, 2):
        flips = (scores[first] > 0) != (scores[second] > 0)
        domain: dict[str, Estimate] = {}
        for name in [] if names is None else np.unique(names).tolist():
            here = names == name
            domain[name] = share_of(flips[here], None if outside is None else outside[here])
        near = cosine(readouts[first].weight[0], readouts[second].weight[0])
        degrees = float(np.degrees(np.arccos(near)))
        shifts.append(Shift(first=first, second=second, cosine=near, degrees=degrees, flipped=share_of(flips, outside), by_domain=domain))
    target = words[scored] == "true"
    auroc: dict[Counted, Estimate] = {
        way: auroc_interval(scores[way], target, groups=outside, level=level, resamples=resamples, seed=seed) for way in COUNTED
    }
    return RelabellingStability(shifts=tuple(shifts), auroc=auroc, n_held_out=int(scored.sum()), n_neither=int((fitted & ~firm).sum()))


def _mask(words: np.ndarray[Any, Any], firm: Bools, groups: Any, *, held_out: Any, share: float, seed: int) -> Bools:
    """Held-out rows: true and false ones by the common rule; neither rows follow their group, or stay among the fitted ones."""
    n = len(words)
    codes = (words == "true").astype(np.int64)
    if held_out is not None:
        mask = as_floats(held_out, name="held_out").astype(bool)
        check_length(mask, n=n, name="held_out")
        held_out_rows(codes[firm], None if groups is None else plain(groups)[firm], held_out=mask[firm], share=share, seed=seed)
        units, _ = as_groups(groups, n=n)
        both = np.intersect1d(units[mask], units[~mask])
        if len(both):
            raise InputError(f"{len(both)} groups have rows on both sides of held_out; hold whole groups out.")
        return mask
    units, _ = as_groups(groups, n=n)
    inside = held_out_rows(codes[firm], units[firm], held_out=None, share=share, seed=seed)
    return np.isin(units, units[firm][inside])
