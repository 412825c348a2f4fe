r"""Does one direction hold a label, or does it take a subspace? Probes of k dimensions against the single direction.

After "Pressure-testing deception probes" (2026), which asks for the AUROC of probes of k dimensions, for its permutation null, and for
the smallest k that is enough. For each k the probe is least squares inside the best k dimensions that the fitted rows have (partial
least squares; see `transect.probes.subspace_scores`): k = 1 is the difference of the class means, many are a full probe. It is
scored on held-out groups.

The null refits everything under shuffled labels, fitted and held-out rows each shuffled as their groups allow, and takes the same
AUROC; all shuffles are fitted together. ``p_joint`` compares with the best k of every shuffle (Westfall and Young 1993), because
looking at many k finds the best of them.

Stated rule. ``k_star`` is the smallest k whose ``p_joint`` is at most ``1 - level`` and whose AUROC is at least the lower end of the
full probe's interval. None means that no k passes both. ``single_share`` is ``(AUROC_1 - 0.5) / (AUROC_full - 0.5)``.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from transect.errors import InputError
from transect.measure._inputs import plain
from transect.measure._rows import as_rows, held_out_rows, two_classes
from transect.measure.controls import null_estimate, permutation_p, permutation_p_best, permute_labels
from transect.measure.directions import check_attainable
from transect.measure.estimate import Estimate
from transect.measure.intervals import bootstrap, estimates
from transect.measure.scores import auroc_columns
from transect.measure.statistic import auroc_statistic
from transect.probes import Ridge, resampled_scores, subspace_scores


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankScore:
    """A probe of k dimensions on rows that it was not fitted on.

    Args:
        k: how many dimensions.
        auroc: with its group-bootstrap interval.
        null: mean and central band of the same procedure under shuffled labels.
        p: one-sided permutation p of this k alone.
        p_joint: the same, corrected for having looked at every k.
    """

    k: int
    auroc: Estimate
    null: Estimate
    p: float
    p_joint: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankComparison:
    """How many dimensions a probe needs.

    Args:
        ranks: the score of each k.
        full: AUROC of ridge regression on everything, with its interval.
        single_share: the share of the full probe's advantage over chance that one direction has; NaN where the full one has none.
        k_star: the smallest k that is enough, by ``rule``; None where none is.
        rule: in words.
        n_fitted: rows fitted.
        n_held_out: rows scored.
    """

    ranks: tuple[RankScore, ...]
    full: Estimate
    single_share: float
    k_star: int | None
    rule: str
    n_fitted: int
    n_held_out: int

    @property
    def sentence(self) -> str:
        """The finding, ready to print."""
        best = max(self.ranks, key=lambda rank: rank.auroc.value)
        if min(rank.p_joint for rank in self.ranks) > 1 - self.full.level:
            return f"no probe of up to {self.ranks[-1].k} dimensions beats shuffled labels (best AUROC {best.auroc} at k = {best.k})."
        first = self.ranks[0]
        head = f"k = {first.k} scores AUROC {first.auroc}, the full probe {self.full}"
        if self.k_star is None:
            return f"{head}; no k tried comes within the full probe's interval, so it takes more than {self.ranks[-1].k} dimensions."
        if self.k_star == 1:
            return f"{head}; a single direction is enough."
        return f"{head}; it takes {self.k_star} dimensions to come within the full probe's interval."

    def to_json(self) -> dict[str, Any]:
        """Plain values; what is undefined is None."""
        ranks = [{**dataclasses.asdict(rank), "auroc": rank.auroc.to_json(), "null": rank.null.to_json()} for rank in self.ranks]
        fields = {name: getattr(self, name) for name in ("k_star", "rule", "n_fitted", "n_held_out", "sentence")}
        share = None if math.isnan(self.single_share) else self.single_share
        return fields | {"ranks": ranks, "full": self.full.to_json(), "single_share": share}


def compare_ranks(
    x: Any,
    labels: Any,
    *,
    ranks: Sequence[int] = (1, 2, 3, 5, 10),
    groups: Any = None,
    held_out: Any = None,
    share: float = 0.5,
    regularization: float = 100.0,
    shuffles: int = 200,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> RankComparison:
    """Compare probes of k dimensions with the single direction and with the full probe (see the head of this module).

    Args:
        x: ``[n, d]`` activations, an array or a tensor on any device.
        labels: ``[n]`` of two classes.
        ranks: the k to try, from 1, rising; those beyond the number of fitted rows or columns are refused.
        groups: ``[n]``; whole groups are held out, drawn and shuffled. None for independent rows.
        held_out: ``[n]`` booleans, rows to score; None draws them.
        share: of the groups to hold out where they are drawn.
        regularization: of the full probe: ridge's alpha, for rows scaled to a root mean square of one.
        shuffles: of the labels.
        level: of the intervals and of the rule.
        resamples: of the group bootstrap.
        seed: of everything drawn.

    Raises:
        InputError: NaN (its row is named), not two classes, a group on both sides, ranks that do not rise from 1, or too large ones.
        SampleSizeError: too few groups for both classes on both sides, or for any p as small as ``1 - level``.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> labels = np.arange(400) % 2
        >>> x = rng.normal(size=(400, 6))
        >>> x[:, 0] += 2 * labels
        >>> compare_ranks(x, labels, ranks=(1, 2)).k_star
        1
    """
    tried = list(ranks)
    if not tried or tried[0] != 1 or sorted(set(tried)) != tried:
        raise InputError(f"ranks must rise from 1, the single direction that the others are compared with, got {tried}.")
    rows = as_rows(x)
    codes, _ = two_classes(labels, n=len(rows))
    mask = held_out_rows(codes, groups, held_out=held_out, share=share, seed=seed)
    inside, outside = (None, None) if groups is None else (plain(groups)[~mask], plain(groups)[mask])
    truth = codes[mask].astype(bool)
    fitted = permute_labels(codes[~mask], groups=inside, shuffles=shuffles, seed=seed).labels
    scored = permute_labels(codes[mask], groups=outside, shuffles=shuffles, seed=seed + 1).labels.astype(bool)
    check_attainable(truth, scored, outside, level=level)
    picked = torch.from_numpy(mask).to(rows.device)
    targets = np.concatenate([codes[~mask][:, None], fitted.T], 1)
    scores = subspace_scores(rows[~picked], targets, rows[picked], ranks=tried)
    null = np.stack([auroc_columns(part[:, 1:], scored.T) for part in scores])
    everything = resampled_scores(
        Ridge(targets="classes"), rows[~picked], targets[:, :1], rows[picked], regularization=regularization, classes=(0, 1)
    )[:, 0]
    drawn = bootstrap(
        [auroc_statistic(values, truth) for values in [*scores[:, :, 0], everything]], groups=outside, resamples=resamples, seed=seed
    )
    *found, full = estimates(drawn, level=level)
    observed = np.array([one.value for one in found])
    joint = permutation_p_best(observed, null)
    listed = tuple(
        RankScore(
            k=k,
            auroc=one,
            null=null_estimate(values, what="labellings, fitted anew", level=level),
            p=permutation_p(one.value, values),
            p_joint=float(p),
        )
        for k, one, values, p in zip(tried, found, null, joint, strict=True)
    )
    enough = [rank.k for rank in listed if rank.p_joint <= 1 - level and rank.auroc.value >= full.low]
    above = full.value - 0.5
    return RankComparison(
        ranks=listed,
        full=full,
        single_share=(observed[0] - 0.5) / above if above > 0 else math.nan,
        k_star=enough[0] if enough else None,
        rule=f"the smallest k whose joint permutation p is at most {1 - level:.2g} ({shuffles} shuffles) and whose held-out AUROC is at "
        f"least the lower end of the full probe's {level:.0%} interval",
        n_fitted=int((~mask).sum()),
        n_held_out=int(mask.sum()),
    )
