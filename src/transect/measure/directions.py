r"""How many linear directions hold a label: iterative null-space projection, counted honestly.

Ravfogel et al. 2020, "Null It Out" (arXiv:2004.07667), and the count of "Caught in the Act" (2025): fit a linear probe, take its
direction out, fit again, until the label can no longer be read. Directions are fitted on development rows and scored on held-out
groups, so that a direction that only fits noise does not count.

Stated rule. The held-out scores of a step are at chance where the permutation p of their AUROC (one-sided, the labels of the held-out
rows shuffled as their groups allow; Phipson and Smyth 2010) is above ``1 - level``. The count is the number of steps before the
first that is at chance. A step that knows nothing goes on by luck with probability ``1 - level``, so the count is too high by about
``1 - level`` on average where the truth is a clean end.

What the count is not: a dimension of the concept. With few rows an estimated direction is off by some angle, and the part of the true
one that is left is found again by the next steps; the count grows with noise in the fit and with the number of held-out rows that
can see small effects. Compare counts at equal rows only.
"""

import dataclasses
from math import comb
from typing import Any, Literal

import numpy as np
import torch
from scipy import stats

from transect.errors import InputError, SampleSizeError
from transect.linear import Origin, Subspace
from transect.measure._inputs import Bools, Floats, as_groups, plain
from transect.measure._rows import as_rows, held_out_rows, two_classes
from transect.measure.controls import null_estimate, permutation_p, permute_labels
from transect.measure.estimate import Estimate
from transect.measure.intervals import bootstrap, estimates
from transect.measure.statistic import auroc_statistic
from transect.probes import nullspace_steps

Stop = Literal["chance", "most", "exhausted"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DirectionScore:
    """What one step's direction says of rows that it was not fitted on.

    Args:
        auroc: on held-out rows, with its group-bootstrap interval.
        null: mean and central band of the same scores' AUROC under shuffled labels.
        p: one-sided permutation p.
        at_chance: whether p is above ``1 - level``.
    """

    auroc: Estimate
    null: Estimate
    p: float
    at_chance: bool


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DirectionCount:
    """How many directions hold a label, step by step.

    Args:
        n_directions: steps before the first at chance.
        steps: each step's score; the last is the one at chance, where there was one.
        directions: the counted ones, orthonormal, of rank ``n_directions``.
        stopped: ``chance``, ``most`` (the count is at least n_directions), or ``exhausted`` (nothing was left to fit).
        most: how many steps were allowed.
        rule: how it was decided, in words.
        n_fitted: rows fitted.
        n_held_out: rows scored.
    """

    n_directions: int
    steps: tuple[DirectionScore, ...]
    directions: Subspace
    stopped: Stop
    most: int
    rule: str
    n_fitted: int
    n_held_out: int

    @property
    def sentence(self) -> str:
        """The finding, ready to print."""
        first = f"the first scores AUROC {self.steps[0].auroc} on {self.n_held_out} held-out rows" if self.steps else "none could be fitted"
        if self.stopped == "most":
            return f"at least {self.n_directions} directions hold the label ({first}); the limit of {self.most} was reached above chance."
        why = "the next is at chance" if self.stopped == "chance" else "then nothing was left to fit"
        if self.n_directions == 0:
            return f"no direction holds the label beyond chance ({first})."
        return f"{self.n_directions} direction{'s' if self.n_directions > 1 else ''} hold the label ({first}); {why}."

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the directions themselves."""
        steps = [
            {"auroc": step.auroc.to_json(), "null": step.null.to_json(), "p": step.p, "at_chance": step.at_chance} for step in self.steps
        ]
        fields = {name: getattr(self, name) for name in ("n_directions", "stopped", "most", "rule", "n_fitted", "n_held_out", "sentence")}
        return fields | {"steps": steps}


def count_directions(
    x: Any,
    labels: Any,
    *,
    groups: Any = None,
    held_out: Any = None,
    share: float = 0.5,
    regularization: float = 100.0,
    most: int = 100,
    shuffles: int = 999,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> DirectionCount:
    """Count the directions that hold a label (see the head of this module for the rule, and for what the count is not).

    Args:
        x: ``[n, d]`` activations, an array or a tensor on any device.
        labels: ``[n]`` of two classes.
        groups: ``[n]``; whole groups are held out, drawn and shuffled. None for independent rows.
        held_out: ``[n]`` booleans, rows to score; None draws them.
        share: of the groups to hold out where they are drawn.
        regularization: ridge's alpha, for rows scaled to a root mean square of one.
        most: steps at most; reaching it is said.
        shuffles: of the held-out labels.
        level: of the intervals and of the rule.
        resamples: of the group bootstrap; 0 makes no intervals.
        seed: of everything drawn.

    Raises:
        InputError: NaN (its row is named), not two classes, a group on both sides, or a setting out of range.
        SampleSizeError: too few groups for both classes on both sides, or for any p as small as ``1 - level``.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> labels = np.arange(400) % 2
        >>> x = rng.normal(size=(400, 8)) * 4
        >>> x[:, 0] = 6 * labels + rng.normal(size=400)
        >>> count_directions(x, labels).n_directions
        1
        >>> count_directions(x, rng.permutation(labels)).sentence
        'no direction holds the label beyond chance (the first scores AUROC 0.49 [0.41, 0.57] on 200 held-out rows).'
    """
    if most < 1:
        raise InputError(f"most must be at least 1, got {most}; 100 is usual.")
    rows = as_rows(x)
    codes, _ = two_classes(labels, n=len(rows))
    mask = held_out_rows(codes, groups, held_out=held_out, share=share, seed=seed)
    truth = codes[mask].astype(bool)
    outside = None if groups is None else plain(groups)[mask]
    shuffled = permute_labels(codes[mask], groups=outside, shuffles=shuffles, seed=seed).labels.astype(bool)
    check_attainable(truth, shuffled, outside, level=level)
    picked = torch.from_numpy(mask).to(rows.device)
    # As numbers, for products of booleans are slow; in float32 as long as sums of ranks, halves of whole numbers, are exact there.
    positives = np.concatenate([truth[None], shuffled]).astype(np.float32 if len(truth) * (len(truth) + 1) < 2**24 else np.float64)
    counts = positives.sum(axis=1, dtype=np.float64)
    scores, observed, nulls, p_values, directions = [], [], [], [], []
    stopped: Stop = "exhausted"
    for step in nullspace_steps(rows[~picked], codes[~mask], rows[picked], regularization=regularization):
        values = step.scores.cpu().numpy()
        reached = auroc_of_ranks(_ranks(values), positives, counts)
        null = reached[1:]
        p = permutation_p(float(reached[0]), null)
        scores.append(values)
        observed.append(float(reached[0]))
        nulls.append(null_estimate(null, what="labellings of the held-out rows", level=level))
        p_values.append(p)
        if p > 1 - level:
            stopped = "chance"
            break
        directions.append(step.direction)
        if len(directions) == most:
            stopped = "most"
            break
    found = [Estimate.bare(value, n=len(truth)) for value in observed]
    if scores and resamples:
        drawn = bootstrap([auroc_statistic(values, truth) for values in scores], groups=outside, resamples=resamples, seed=seed)
        found = estimates(drawn, level=level)
    steps = [
        DirectionScore(auroc=one, null=null, p=p, at_chance=p > 1 - level) for one, null, p in zip(found, nulls, p_values, strict=True)
    ]
    basis = torch.stack(directions) if directions else torch.zeros(0, rows.shape[1], dtype=torch.float64)
    settings = {"regularization": regularization, "level": level, "shuffles": shuffles, "seed": seed}
    return DirectionCount(
        n_directions=len(directions),
        steps=tuple(steps),
        directions=Subspace(basis=basis, origin=Origin(fitter="count_directions", settings=settings)),
        stopped=stopped,
        most=most,
        rule=f"steps before the first whose held-out AUROC has a permutation p above {1 - level:.2g} ({shuffles} shuffles)",
        n_fitted=int((~mask).sum()),
        n_held_out=int(mask.sum()),
    )


def auroc_of_ranks(ranks: Floats, labellings: np.ndarray[Any, Any], counts: Floats) -> Floats:
    """AUROC ``[p]`` of scores with mid-ranks ``[n]`` under labellings ``[p, n]`` of 0 and 1 with so many ones ``[p]``, as one product."""
    total = (labellings @ ranks.astype(labellings.dtype)).astype(np.float64)
    return (total - counts * (counts + 1) / 2) / (counts * (len(ranks) - counts))


def _ranks(values: Floats) -> Floats:
    """Mid-ranks ``[n]``; where no two scores are equal, which is the rule, without SciPy's overhead."""
    order = np.argsort(values)
    if (np.diff(values[order]) == 0).any():
        return np.asarray(stats.rankdata(values))
    ranks = np.empty(len(values))
    ranks[order] = np.arange(1, len(values) + 1)
    return ranks


def check_attainable(truth: Bools, shuffled: Bools, groups: Any, *, level: float) -> None:
    """Refuse rows so few that no score could be told from chance.

    Raises:
        SampleSizeError: a perfect score would have a p above ``1 - level``; says how many groups it takes.
    """
    least = permutation_p(1.0, (shuffled == truth).all(1).astype(float))
    if least <= 1 - level:
        return
    n_groups = as_groups(groups, n=len(truth))[1]
    needed = next(count for count in range(2, 10_000) if comb(count, count // 2) * (1 - level) >= 1)
    raise SampleSizeError(
        f"the held-out rows ({len(truth)} in {n_groups} groups) can be shuffled in so few ways that even a perfect score has "
        f"p = {least:.2g}, above {1 - level:.2g}. It takes about {needed} held-out groups, half of each class, and 1/(1 - level) shuffles.",
        needed=needed,
        got=n_groups,
    )
