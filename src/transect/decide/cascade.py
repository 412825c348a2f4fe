"""An early-stopping cascade: end episodes that are failing, and promise how many of the good ones live on.

After each of the first rounds of an episode a probe gives a failure score. Gate j ends the episode when its score of round j is
above the gate's threshold, and saves what the later rounds would have cost. The recall is the share of successful episodes
that survive all gates.

The share of successes that all gates together may lose is divided among them so that the saved compute is largest (the per-round
budgets are chosen jointly, on one half of the episodes). The cascade is then frozen, and its recall is certified on the other
half: of m successful episodes k are lost, and the exact lower bound of Clopper and Pearson (1934) on the recall,

    beta.ppf(1 - confidence, m - k, k + 1),

holds whatever the scores are, because the episodes had no part in the choice. So that the certificate usually comes out, the budget
on the selection half is the largest loss rate with which it comes out with the probability `power`.

Source: "early failure prediction and inference-time early stopping for LLM agents using hidden-state probes", the recall-controlled
abort cascade; the best single gate is its baseline.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from scipy import special, stats

from transect.decide._gates import (
    as_episodes,
    as_rounds,
    check_shares,
    cost_after,
    divisions,
    fewest_to_certify,
    loss_allowed,
    most_lost,
    ratio_statistic,
    saved_by_gates,
    threshold_after,
)
from transect.errors import InputError, SampleSizeError
from transect.measure import Estimate, Statistic, difference, interval
from transect.measure._inputs import Floats, Ints, as_groups


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Cascade:
    """Frozen gates.

    Args:
        thresholds: ``[r]``, the score above which gate j ends an episode; infinite for a gate that never does.
        budgets: ``[r]``, the share of the successful selection episodes that gate j ended.
        recall: share of the successful selection episodes that survived all gates. It was chosen, so it is no promise.
        saved: share of the selection episodes' cost that would have been saved, likewise.
    """

    thresholds: Floats
    budgets: Floats
    recall: float
    saved: float

    def ends_at(self, scores: Any) -> Ints:
        """``[n]``: the round (from 0) after which each episode of ``scores [n, r]`` is ended, -1 for those that survive.

        Raises:
            InputError: the scores have another number of rounds than the cascade has gates.
        """
        rounds = as_rounds(scores)
        if rounds.shape[1] != len(self.thresholds):
            raise InputError(f"this cascade has {len(self.thresholds)} gates, got scores of {rounds.shape[1]} rounds.")
        over = rounds > self.thresholds  # NaN, a round that did not come, is never above
        return np.where(over.any(axis=1), over.argmax(axis=1), -1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CascadeCertificate:
    """What independent episodes say of a frozen cascade.

    Args:
        recall: share of successful episodes that survive; `low` is the exact one-sided lower bound at the confidence, `high` is 1.
        target: the recall that was asked for.
        saved: share of the cost that is saved, with a two-sided bootstrap interval.
        lost: successful episodes that were ended.
    """

    recall: Estimate
    target: float
    saved: Estimate
    lost: int

    @property
    def holds(self) -> bool:
        """Whether the recall is certified: whether its lower bound reaches the target."""
        return self.recall.low >= self.target


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class EarlyStopping:
    """A cascade and the best single gate, both chosen on the same half and certified on the other.

    Args:
        cascade: the gates.
        certificate: of the cascade.
        single: the cascade with one gate that saved most on the selection half.
        single_certificate: of that gate.
        gain: saved by the cascade minus saved by that gate, as shares of the cost, paired on the certification half.
    """

    cascade: Cascade
    certificate: CascadeCertificate
    single: Cascade
    single_certificate: CascadeCertificate
    gain: Estimate


def episodes_to_certify(target: float, *, confidence: float = 0.95, loss: float = 0.0, power: float = 0.8) -> int:
    """How many successful, independent episodes certify a recall, with the probability `power`, when `loss` of them are lost.

    With no loss it is ``ceil(log(1 - confidence) / log(target))``.

    Raises:
        InputError: a share outside its range, or a loss that the target does not allow.

    Examples:
        >>> episodes_to_certify(0.9), episodes_to_certify(0.95), episodes_to_certify(0.9, loss=0.05)
        (29, 59, 179)
    """
    check_shares(target=target, confidence=confidence, power=power)
    fewest = fewest_to_certify(target, confidence)
    if loss == 0:
        return fewest
    if not 0 < loss < 1 - target:
        raise InputError(f"a recall of {target:g} leaves a loss below {1 - target:g}, got loss={loss:g}.")
    m = fewest
    # The chance saws up and down as the allowed losses step, so the first m that does is found by going through them all.
    while special.bdtr(most_lost(m, target, confidence), m, loss) < power:
        m += 1
    return m


def select_cascade(
    scores: Any,
    success: Any,
    *,
    costs: Any = None,
    target: float = 0.9,
    confidence: float = 0.95,
    certify_with: int | None = None,
    power: float = 0.8,
    gates: Any = None,
) -> Cascade:
    """Choose the thresholds that save most while losing no more successes than the budget.

    Args:
        scores: ``[n, r]`` failure scores of the first r rounds, higher for failing; NaN from where an episode had ended by itself. Or
            a list of one list of scores per episode.
        success: ``[n]``, whether each episode would succeed in the end.
        costs: ``[n, R]`` with R >= r, what each round costs (tokens, seconds); 0 or NaN after the end. None counts scored rounds.
        target: the recall to be certified.
        confidence: of the certificate.
        certify_with: how many successful episodes will certify it; None spends the whole ``1 - target`` on the selection half.
        power: how likely the certificate should come out.
        gates: which rounds (from 0) may end episodes; None for all.

    Raises:
        InputError: no successful episode, shapes that do not fit, infinite scores (the row is named).
        SampleSizeError: `certify_with` is too small to certify the target even when nothing is lost.

    Examples:
        >>> import numpy as np
        >>> success = np.arange(40) % 2 == 0
        >>> scores = np.where(success, 0.2, 0.8)[:, None] + np.zeros((40, 3))
        >>> cascade = select_cascade(scores, success)
        >>> cascade.recall, round(cascade.saved, 2)
        (1.0, 0.33)
    """
    rounds, labels, price = as_episodes(scores, success, costs)
    check_shares(target=target, confidence=confidence, power=power)
    if not labels.any():
        raise InputError(f"none of the {len(labels)} selection episodes succeeds, so there is no recall to keep.")
    allowed = 1 - target if certify_with is None else loss_allowed(certify_with, target, confidence, power)
    budget = math.floor(allowed * int(labels.sum()) + 1e-9)
    used = range(rounds.shape[1]) if gates is None else sorted({int(gate) for gate in np.atleast_1d(gates)})
    if not used or used[0] < 0 or used[-1] >= rounds.shape[1]:
        raise InputError(f"gates are rounds from 0 to {rounds.shape[1] - 1}, got {list(used)}.")
    later = cost_after(price, rounds.shape[1])
    best = -1.0, np.full(rounds.shape[1], np.inf)
    for division in divisions(budget, len(used)):
        thresholds = np.full(rounds.shape[1], np.inf)
        alive = labels.copy()
        for gate, spent in zip(used, division, strict=True):
            thresholds[gate] = threshold_after(rounds[alive, gate], spent)
            alive &= ~(rounds[:, gate] > thresholds[gate])
        saved = saved_by_gates(rounds, thresholds, later).sum()
        if saved > best[0] * (1 + 1e-12):
            best = float(saved), thresholds
    first = Cascade(thresholds=best[1], budgets=best[1], recall=1.0, saved=0.0).ends_at(rounds)
    lost = np.bincount(first[labels & (first >= 0)], minlength=rounds.shape[1]) / labels.sum()
    return Cascade(thresholds=best[1], budgets=lost, recall=float(1 - lost.sum()), saved=best[0] / float(price.sum()))


def certify_cascade(
    cascade: Cascade,
    scores: Any,
    success: Any,
    *,
    costs: Any = None,
    target: float = 0.9,
    confidence: float = 0.95,
    groups: Any = None,
    seed: int = 0,
) -> CascadeCertificate:
    """Certify the recall of a frozen cascade on episodes that had no part in choosing it.

    The chance that the certificate holds although the true recall is below the target is at most ``1 - confidence``.

    Args:
        cascade: from `select_cascade`.
        scores: as there.
        success: as there.
        costs: as there.
        target: the recall to certify.
        confidence: one-sided.
        groups: ``[n]``, such as the task; only one successful episode of each group counts, drawn at random, for those of one group
            are not independent.
        seed: of that draw and of the bootstrap.

    Raises:
        SampleSizeError: too few independent successful episodes to certify the target even if none is lost; it says how many it takes.
        InputError: as for `select_cascade`.
    """
    rounds, labels, price = as_episodes(scores, success, costs)
    check_shares(target=target, confidence=confidence)
    codes, _ = as_groups(groups, n=len(labels))
    drawn = np.random.default_rng(seed).permutation(np.flatnonzero(labels))
    counted = drawn[np.unique(codes[drawn], return_index=True)[1]]
    m, needed = len(counted), episodes_to_certify(target, confidence=confidence)
    if m < needed:
        raise SampleSizeError(
            f"a recall of {target:g} at confidence {confidence:g} takes at least {needed} independent successful episodes, even if none of "
            f"them is lost; got {m}. Run more episodes, or ask for a lower recall.",
            needed=needed,
            got=m,
        )
    ended = cascade.ends_at(rounds)
    lost = int((ended[counted] >= 0).sum())
    low = float(stats.beta.ppf(1 - confidence, m - lost, lost + 1)) if lost < m else 0.0
    recall = Estimate(1 - lost / m, low, 1.0, confidence, m, m, "Clopper-Pearson lower bound, one-sided")
    saved = interval(_saved_share(cascade, rounds, price), groups=groups, seed=seed)
    return CascadeCertificate(recall=recall, target=target, saved=saved, lost=lost)


def stop_early(
    scores: Any,
    success: Any,
    *,
    costs: Any = None,
    target: float = 0.9,
    confidence: float = 0.95,
    power: float = 0.8,
    groups: Any = None,
    seed: int = 0,
) -> EarlyStopping:
    """Split the episodes in two (whole groups), choose a cascade and a single gate on one half, and certify both on the other.

    Each certificate holds at the confidence by itself; the two are for comparison, so use one of them.

    Raises:
        SampleSizeError: the certification half is too small, as for `certify_cascade`.
        InputError: as for `select_cascade`.
    """
    rounds, labels, price = as_episodes(scores, success, costs)
    codes, n_groups = as_groups(groups, n=len(labels))
    half = np.random.default_rng([seed, 2]).permutation(n_groups) < n_groups // 2
    chosen, held = half[codes], ~half[codes]
    m = len(np.unique(codes[held & labels]))
    fixed: dict[str, Any] = {"target": target, "confidence": confidence}
    select: dict[str, Any] = {"costs": price[chosen], "certify_with": m, "power": power, **fixed}
    cascade = select_cascade(rounds[chosen], labels[chosen], **select)
    singles = [select_cascade(rounds[chosen], labels[chosen], gates=[gate], **select) for gate in range(rounds.shape[1])]
    single = max(singles, key=lambda one: one.saved)
    certify: dict[str, Any] = {"costs": price[held], "groups": codes[held], "seed": seed, **fixed}
    both = [_saved_share(one, rounds[held], price[held]) for one in (cascade, single)]
    return EarlyStopping(
        cascade=cascade,
        certificate=certify_cascade(cascade, rounds[held], labels[held], **certify),
        single=single,
        single_certificate=certify_cascade(single, rounds[held], labels[held], **certify),
        gain=difference(*both, groups=codes[held], seed=seed),
    )


def _saved_share(cascade: Cascade, rounds: Floats, price: Floats) -> Statistic:
    return ratio_statistic(saved_by_gates(rounds, cascade.thresholds, cost_after(price, rounds.shape[1])), price.sum(axis=1))
