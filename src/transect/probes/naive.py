"""The definitions: each fitter again, slow and obvious, in float64 with numpy. Tests compare the fast ones with these."""

from typing import NamedTuple

import numpy as np


class Naive(NamedTuple):
    """Weights ``[k, d]`` and biases ``[k]`` of the activations themselves."""

    weight: np.ndarray
    bias: np.ndarray


def naive_mean_difference(x: np.ndarray, codes: np.ndarray, *, weight: np.ndarray | None = None) -> Naive:
    """`MeanDifference` of rows ``x [n, d]`` with class indices ``codes [n]``.

    Examples:
        >>> naive_mean_difference(np.array([[0.0], [4.0]]), np.array([0, 1]))
        Naive(weight=array([[4.]]), bias=array([-8.]))
    """
    w = _ones(x, weight)
    means = _means(x, codes, w)
    if len(means) == 2:
        difference = means[1] - means[0]
        return Naive(difference[None], np.array([-difference @ (means[0] + means[1]) / 2]))
    means = means - w @ x / w.sum()
    middle = w @ x / w.sum()
    return Naive(means, -(means**2).sum(1) / 2 - means @ middle)


def naive_lda(x: np.ndarray, codes: np.ndarray, *, shrinkage: float, weight: np.ndarray | None = None) -> Naive:
    """`LDA`: invert the shrunk covariance within classes."""
    w = _ones(x, weight)
    means = _means(x, codes, w)
    around = x - means[codes]
    covariance = (around * w[:, None]).T @ around / w.sum()
    d = x.shape[1]
    shrunk = (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / d * np.eye(d)
    directions = np.linalg.solve(shrunk, means.T).T
    biases = -(directions * means).sum(1) / 2 + np.log(np.bincount(codes, w) / w.sum())
    return _two(directions, biases)


def naive_ledoit_wolf(x: np.ndarray, codes: np.ndarray) -> float:
    """The shrinkage that ``LDA(shrinkage="auto")`` takes: Ledoit and Wolf 2004, for rows around their class means."""
    around = x - _means(x, codes, np.ones(len(x)))[codes]
    n, d = x.shape
    covariance = around.T @ around / n
    sphere = np.trace(covariance) / d * np.eye(d)
    distance = ((covariance - sphere) ** 2).sum()
    noise = sum(((np.outer(row, row) - covariance) ** 2).sum() for row in around) / n**2
    return float(min(noise / distance, 1.0)) if distance > 0 else 1.0


def naive_ridge(x: np.ndarray, y: np.ndarray, *, alpha: float, weight: np.ndarray | None = None) -> Naive:
    """`Ridge` of numbers ``y [n]`` or ``[n, k]``: the normal equations, the intercept as one more column."""
    w = _ones(x, weight)
    y = y.reshape(len(y), -1)
    wide = np.hstack([x, np.ones((len(x), 1))])
    penalty = alpha * np.eye(wide.shape[1])
    penalty[-1, -1] = 0
    answer = np.linalg.lstsq((wide * w[:, None]).T @ wide + penalty, (wide * w[:, None]).T @ y, rcond=None)[0]
    return Naive(answer[:-1].T, answer[-1])


# The letter is scikit-learn's.
def naive_logistic(x: np.ndarray, codes: np.ndarray, *, C: float, weight: np.ndarray | None = None) -> Naive:
    """`Logistic`: Newton's method with the whole second derivative and halved steps; then whole ones, as long as the gradient falls.

    Near the optimum the objective no longer tells better from worse: its last digit is the square of the weights' last digits.
    """
    w = _ones(x, weight)
    classes = int(codes.max()) + 1
    k, columns = (1 if classes == 2 else classes), x.shape[1] + 1
    middle = w @ x / w.sum()
    wide = np.hstack([x - middle, np.ones((len(x), 1))])
    penalty = np.tile(np.append(np.ones(x.shape[1]), 0.0), k)
    theta = np.zeros(k * columns)
    value = _objective(theta, wide, codes, w, C, k)
    for _ in range(500):
        slope, second = _derivatives(theta, wide, codes, w, C, k)
        step = -np.linalg.lstsq(second + np.diag(penalty), slope + penalty * theta, rcond=1e-15)[0]
        for halvings in range(60):
            candidate = theta + step / 2**halvings
            new = _objective(candidate, wide, codes, w, C, k)
            if new < value:
                break
        else:
            break
        theta, value = candidate, new
    best, least = theta, np.inf
    for _ in range(20):
        slope, second = _derivatives(theta, wide, codes, w, C, k)
        whole = slope + penalty * theta
        if not np.linalg.norm(whole) < least:
            break
        best, least = theta, np.linalg.norm(whole)
        theta = theta - np.linalg.lstsq(second + np.diag(penalty), whole, rcond=1e-15)[0]
    theta = best.reshape(k, columns)
    bias = theta[:, -1] - theta[:, :-1] @ middle
    return Naive(theta[:, :-1], bias)


def naive_nullspace(
    x: np.ndarray, codes: np.ndarray, x_eval: np.ndarray, *, regularization: float, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """`nullspace_steps`: project the rows, fit from nothing, again and again. Directions ``[steps, d]`` and scores ``[steps, m]``."""
    middle = x.mean(0)
    rows, rest = x - middle, x_eval - middle
    alpha, sign = regularization * (rows**2).mean(), 2.0 * codes - 1
    directions = []
    for _ in range(steps):
        # Ridge in its dual form, for the normal equations of `naive_ridge` lose digits that later steps need.
        weight = rows.T @ np.linalg.solve(rows @ rows.T + alpha * np.eye(len(rows)), sign - sign.mean())
        directions.append(weight / np.linalg.norm(weight))
        basis = np.linalg.qr(np.stack(directions, 1))[0]
        rows = (x - middle) - (x - middle) @ basis @ basis.T
    return np.stack(directions), np.stack(directions) @ rest.T


def naive_subspace_scores(x: np.ndarray, y: np.ndarray, x_eval: np.ndarray, *, rank: int) -> np.ndarray:
    """`subspace_scores` of one labelling ``y [n]`` at one rank: partial least squares by deflation (Wold 1975), scores ``[m]``."""
    middle = x.mean(0)
    rows, target = x - middle, y - y.mean()
    weights, loads, regress = [], [], []
    for _ in range(rank):
        pull = rows.T @ target
        if np.linalg.norm(pull) <= 1e-9 * np.linalg.norm((x - middle).T @ (y - y.mean())):
            break
        weight = pull / np.linalg.norm(pull)
        part = rows @ weight
        load = rows.T @ part / (part @ part)
        share = target @ part / (part @ part)
        rows, target = rows - np.outer(part, load), target - share * part
        weights.append(weight)
        loads.append(load)
        regress.append(share)
    if not weights:
        return np.zeros(len(x_eval))
    w, p = np.stack(weights, 1), np.stack(loads, 1)
    return (x_eval - middle) @ w @ np.linalg.solve(p.T @ w, np.array(regress))


def naive_objective(found: Naive, x: np.ndarray, codes: np.ndarray, *, C: float, weight: np.ndarray | None = None) -> float:
    """What `Logistic` minimises, ``|W|^2 / 2 + C sum_i weight_i loss_i``, at given weights and biases, whoever found them."""
    wide = np.hstack([x, np.ones((len(x), 1))])
    theta = np.hstack([found.weight, found.bias[:, None]]).ravel()
    return _objective(theta, wide, codes, _ones(x, weight), C, len(found.bias))


def _objective(theta: np.ndarray, wide: np.ndarray, codes: np.ndarray, w: np.ndarray, c: float, k: int) -> float:
    theta = theta.reshape(k, -1)
    scores = wide @ theta.T
    if k == 1:
        losses = np.logaddexp(0, -(2 * codes - 1) * scores[:, 0])
    else:
        losses = np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(codes)), codes]
    return float((theta[:, :-1] ** 2).sum() / 2 + c * (w * losses).sum())


def _derivatives(theta: np.ndarray, wide: np.ndarray, codes: np.ndarray, w: np.ndarray, c: float, k: int) -> tuple[np.ndarray, np.ndarray]:
    scores = wide @ theta.reshape(k, -1).T
    if k == 1:
        chance = np.exp(-np.logaddexp(0, -scores))
        truth = codes[:, None]
    else:
        chance = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
        truth = np.eye(k)[codes]
    slope = ((chance - truth) * (c * w)[:, None]).T @ wide
    columns = wide.shape[1]
    second = np.zeros((k, columns, k, columns))
    for i in range(k):
        for j in range(k):
            curve = chance[:, i] * ((1.0 if i == j else 0.0) - chance[:, j])
            second[i, :, j] = (wide * (c * w * curve)[:, None]).T @ wide
    return slope.ravel(), second.reshape(k * columns, k * columns)


def _ones(x: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    return np.ones(len(x)) if weight is None else weight


def _means(x: np.ndarray, codes: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.stack([np.average(x[codes == code], axis=0, weights=w[codes == code]) for code in range(int(codes.max()) + 1)])


def _two(weight: np.ndarray, bias: np.ndarray) -> Naive:
    """Two classes have one score, the difference of the two."""
    return Naive(weight[1:] - weight[:1], bias[1:] - bias[:1]) if len(bias) == 2 else Naive(weight, bias)
