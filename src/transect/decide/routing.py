"""Which model should answer: routing by probes that tell each model's success before it generates.

Every model j has a probability p_j(x) of answering query x rightly, from a probe on its own activations, and a cost c_j. Two rules:

- ``utility``: the model with the largest ``p_j - tradeoff * c_j``. A tradeoff of 0 asks the likeliest to be right.
- ``adequate``: the cheapest model with ``p_j >= tradeoff``; where none is, the likeliest to be right.

The curve of accuracy against cost over tradeoffs is a description: every point is measured on every row, none is chosen. The one
point that is *chosen* (the cheapest that is as accurate as the best single model) is cross-fitted: tradeoff and best single model are
chosen on the other folds of whole groups, and what is reported comes from rows that had no part in it. Beside it stand each model
alone, a model at random, the best mixture of two models at the same cost that a coin without probes can make, and the oracle (the
cheapest model that is right).

Sources: "LLMs Encode Their Failures: Predicting Success from Pre-Generation Activations" (2026) for the routing, "No Answer Needed"
(2025) for the probes.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from transect.decide._folds import grouped_folds
from transect.errors import InputError
from transect.measure import Bootstrap, Estimate, Statistic, bootstrap, difference, estimates, mean_statistic
from transect.measure._inputs import Floats, Ints, as_floats, as_groups, as_positives, check_length

Rule = Literal["utility", "adequate"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RoutePoint:
    """What one way of choosing models costs and achieves.

    Args:
        name: in words.
        tradeoff: of the rule; None where there is none.
        accuracy: share of queries answered rightly.
        cost: mean cost of a query.
        shares: how often each model was asked; empty where that has no meaning.
    """

    name: str
    tradeoff: float | None = None
    accuracy: Estimate
    cost: Estimate
    shares: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Routing:
    """Routing beside what it must beat.

    Args:
        models: names.
        rule: of the routing.
        curve: a point for each tradeoff, all on all rows.
        singles: each model alone.
        random: a model at random, each as likely.
        oracle: the cheapest model that is right; the cheapest where none is.
        chosen: the cross-fitted point: the cheapest that is as accurate as the best single model, as the other folds see it.
        best: name of the best single model on all rows; the comparison uses the one that the other folds chose.
        accuracy_gap: accuracy of `chosen` minus that of the best single model, paired.
        saving: one minus the ratio of their costs, paired. Negative where routing costs more.
        coin: accuracy of the best mixture of two single models at the cost of `chosen`; chosen on these very rows, so generous to it.
    """

    models: tuple[str, ...]
    rule: Rule
    curve: tuple[RoutePoint, ...]
    singles: tuple[RoutePoint, ...]
    random: RoutePoint
    oracle: RoutePoint
    chosen: RoutePoint
    best: str
    accuracy_gap: Estimate
    saving: Estimate
    coin: float

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Column names and rows, as text: singles, random, oracle, chosen, then the curve."""
        points = (*self.singles, self.random, self.oracle, self.chosen, *self.curve)
        names = ["how", "tradeoff", "accuracy", "cost", *self.models]
        rows = []
        for point in points:
            shares = [f"{share:.0%}" for share in point.shares] or [""] * len(self.models)
            tradeoff = "" if point.tradeoff is None else f"{point.tradeoff:.4g}"
            cost = f"{point.cost.value:.4g} [{point.cost.low:.4g}, {point.cost.high:.4g}]"
            rows.append([point.name, tradeoff, str(point.accuracy), cost, *shares])
        return names, rows

    def to_json(self) -> dict[str, Any]:
        """Plain values."""

        def plain(point: RoutePoint) -> dict[str, Any]:
            numbers = {"accuracy": point.accuracy.to_json(), "cost": point.cost.to_json()}
            return {"name": point.name, "tradeoff": point.tradeoff, **numbers, "shares": list(point.shares)}

        single = {name: plain(getattr(self, name)) for name in ("random", "oracle", "chosen")}
        many = {name: [plain(point) for point in getattr(self, name)] for name in ("curve", "singles")}
        gaps = {"accuracy_gap": self.accuracy_gap.to_json(), "saving": self.saving.to_json(), "coin": self.coin}
        return {"models": list(self.models), "rule": self.rule, "best": self.best, **single, **many, **gaps}


def route(probabilities: Any, costs: Any, *, tradeoff: float = 0.0, rule: Rule = "utility") -> Ints:
    """Which model answers each query, ``[n]`` indices; among equals the cheaper one.

    Args:
        probabilities: ``[n, m]``, of each model's success, calibrated, from probes that did not see these rows.
        costs: ``[m]``, or ``[n, m]`` where queries differ; in any one unit.
        tradeoff: see the head of this module.
        rule: ``utility`` or ``adequate``.

    Raises:
        InputError: NaN (its row is named), values outside [0, 1], negative costs, shapes that do not fit, an unknown rule.

    Examples:
        >>> route([[0.9, 0.95], [0.2, 0.9]], [1.0, 10.0], tradeoff=0.03).tolist()
        [0, 1]
        >>> route([[0.9, 0.95], [0.2, 0.4]], [1.0, 10.0], tradeoff=0.8, rule="adequate").tolist()
        [0, 1]
    """
    chances, price = _as_pool(probabilities, costs)
    if rule not in get_args(Rule):
        raise InputError(f"rule must be one of {get_args(Rule)}, got {rule!r}.")
    if rule == "utility":
        worth = chances - tradeoff * price
    else:
        enough = chances >= tradeoff
        worth = np.where(enough.any(axis=1, keepdims=True), np.where(enough, -price, -np.inf), chances)
    cheapest_first = np.argsort(price, axis=1, kind="stable")
    pick = np.take_along_axis(worth, cheapest_first, axis=1).argmax(axis=1)
    return cheapest_first[np.arange(len(chances)), pick]


def evaluate_routing(
    probabilities: Any,
    success: Any,
    costs: Any,
    *,
    models: Sequence[str] | None = None,
    rule: Rule = "utility",
    tradeoffs: Sequence[float] | None = None,
    groups: Any = None,
    folds: int = 5,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Routing:
    """Measure routing on queries where every model's success is known.

    Args:
        probabilities: ``[n, m]``, as for `route`.
        success: ``[n, m]``, whether each model answers each query rightly.
        costs: ``[m]`` or ``[n, m]``.
        models: ``[m]`` names; None numbers them.
        rule: of the routing.
        tradeoffs: those tried; None takes about twenty from no saving at all to always the cheapest.
        groups: ``[n]``, kept whole in folds and resamples.
        folds: of the cross-fitting.
        level: of the intervals.
        resamples: of the group bootstrap.
        seed: of folds and resamples.

    Raises:
        InputError: as for `route`; fewer groups than folds.
    """
    chances, price = _as_pool(probabilities, costs)
    n, m = chances.shape
    right = as_positives(success, n=n, name="success")
    if right.shape != (n, m):
        raise InputError(f"success must be [n, m] = [{n}, {m}] like the probabilities, got shape {list(right.shape)}.")
    names = tuple(f"model {index}" for index in range(m)) if models is None else tuple(map(str, models))
    if len(names) != m:
        raise InputError(f"expected {m} names of models, got {len(names)}.")
    tried = _tradeoffs(price, rule) if tradeoffs is None else [float(value) for value in tradeoffs]
    rows = np.arange(n)
    picks = [route(chances, price, tradeoff=value, rule=rule) for value in tried]
    chosen, against, typical = _cross_fitted(picks, right, price, tried, grouped_folds(n, groups=groups, folds=folds, seed=seed))
    oracle = np.where(right.any(axis=1), np.where(right, price, np.inf).argmin(axis=1), price.argmin(axis=1))

    numbers: list[tuple[str, float | None, Floats, Floats, Ints | None]] = [
        *((name, None, right[:, j].astype(float), price[:, j], np.full(n, j)) for j, name in enumerate(names)),
        ("random", None, right.mean(axis=1), price.mean(axis=1), None),
        ("oracle", None, right[rows, oracle].astype(float), price[rows, oracle], oracle),
        ("chosen, cross-fitted", typical, right[rows, chosen].astype(float), price[rows, chosen], chosen),
        *(("curve", value, right[rows, pick].astype(float), price[rows, pick], pick) for value, pick in zip(tried, picks, strict=True)),
    ]
    points = _points(numbers, m, groups=groups, level=level, resamples=resamples, seed=seed)
    pair = {"groups": groups, "level": level, "resamples": resamples, "seed": seed}
    gap = difference(_accuracy(right[rows, chosen]), _accuracy(right[rows, against]), **pair)
    return Routing(
        models=names,
        rule=rule,
        singles=tuple(points[:m]),
        random=points[m],
        oracle=points[m + 1],
        chosen=points[m + 2],
        curve=tuple(points[m + 3 :]),
        best=names[int(right.mean(axis=0).argmax())],
        accuracy_gap=gap,
        saving=_saving(price[rows, chosen], price[rows, against], **pair),
        coin=_coin(right.mean(axis=0), price.mean(axis=0), float(price[rows, chosen].mean())),
    )


def _as_pool(probabilities: Any, costs: Any) -> tuple[Floats, Floats]:
    chances = as_floats(probabilities, name="probabilities", ndim=(2,))
    outside = np.flatnonzero(((chances < 0) | (chances > 1)).any(axis=1))
    if len(outside):
        raise InputError(
            f"probabilities must lie between 0 and 1, got {chances[outside[0]].tolist()} in row {outside[0]}; calibrate scores."
        )
    price = as_floats(costs, name="costs", ndim=(1, 2))
    if price.ndim == 1:
        check_length(price, n=chances.shape[1], name="costs")
        price = np.broadcast_to(price, chances.shape)
    if price.shape != chances.shape or (price < 0).any() or not price.any():
        raise InputError(
            f"costs must be [m] or [n, m] for probabilities [n, m] = {list(chances.shape)}, at least 0 and not all 0, got shape "
            f"{list(price.shape)}."
        )
    return chances, price


def _tradeoffs(price: Floats, rule: Rule) -> list[float]:
    if rule == "adequate":
        return [round(float(value), 3) for value in np.linspace(0, 1, 21)]
    gaps = np.diff(np.sort(price.mean(axis=0))).astype(np.float64)
    smallest = float(gaps[gaps > 0].min()) if (gaps > 0).any() else float(price.mean())
    # A whole unit of probability bought at the smallest difference of costs: beyond it always the cheapest is asked.
    return [0.0, *(float(value) for value in np.geomspace(1e-3, 1, 20) / smallest)]


def _cross_fitted(picks: Sequence[Ints], right: Any, price: Floats, tried: Sequence[float], folds: Ints) -> tuple[Ints, Ints, float]:
    """For each row, the model asked and the best single model, both chosen on the other folds; and the median tradeoff chosen."""
    rows = np.arange(len(folds))
    accuracy = np.stack([right[rows, pick] for pick in picks]).astype(float)
    cost = np.stack([price[rows, pick] for pick in picks])
    chosen, against, used = np.empty(len(rows), dtype=np.int64), np.empty(len(rows), dtype=np.int64), []
    for fold in np.unique(folds):
        held, rest = folds == fold, folds != fold
        singles = right[rest].mean(axis=0)
        best = int(np.lexsort((price[rest].mean(axis=0), -singles))[0])
        seen = accuracy[:, rest].mean(axis=1)
        goal = min(singles[best], seen.max())  # where nothing is as accurate, the most accurate is asked
        good = np.flatnonzero(seen >= goal - 1e-12)
        setting = int(good[cost[good][:, rest].mean(axis=1).argmin()])
        chosen[held], against[held] = picks[setting][held], best
        used.append(tried[setting])
    return chosen, against, float(np.median(used))


def _accuracy(values: Any) -> Statistic:
    return mean_statistic(values, name="accuracy", bounds=(0.0, 1.0))


def _points(
    numbers: Sequence[tuple[str, float | None, Floats, Floats, Ints | None]],
    m: int,
    *,
    groups: Any,
    level: float,
    resamples: int,
    seed: int,
) -> list[RoutePoint]:
    statistics = [_accuracy(right) for _, _, right, _, _ in numbers]
    statistics += [mean_statistic(cost, name="cost") for _, _, _, cost, _ in numbers]
    result: Bootstrap = bootstrap(statistics, groups=groups, resamples=resamples, seed=seed)
    found = estimates(result, level=level)
    points = []
    for index, (name, tradeoff, _, _, pick) in enumerate(numbers):
        shares = () if pick is None else tuple(float(share) for share in np.bincount(pick, minlength=m) / len(pick))
        points.append(RoutePoint(name=name, tradeoff=tradeoff, accuracy=found[index], cost=found[len(numbers) + index], shares=shares))
    return points


def _saving(cost: Floats, against: Floats, *, groups: Any, level: float, resamples: int, seed: int) -> Estimate:
    result = bootstrap([mean_statistic(x, name="cost") for x in (cost, against)], groups=groups, resamples=resamples, seed=seed)
    value = float(1 - result.values[0] / result.values[1])
    low, high = np.quantile(1 - result.draws[0] / result.draws[1], [(1 - level) / 2, (1 + level) / 2])
    return Estimate(
        value, float(low), float(high), level, len(cost), as_groups(groups, n=len(cost))[1], f"paired {result.words}, percentiles"
    )


def _coin(accuracy: Floats, cost: Floats, budget: float) -> float:
    """The best accuracy of a mixture of two models whose mean cost is at most the budget."""
    best = float(accuracy[cost <= budget + 1e-12].max(initial=0.0))
    for i in range(len(cost)):
        for j in range(len(cost)):
            if cost[i] < budget < cost[j]:
                share = (budget - cost[i]) / (cost[j] - cost[i])
                best = max(best, float(accuracy[i] + share * (accuracy[j] - accuracy[i])))
    return best
