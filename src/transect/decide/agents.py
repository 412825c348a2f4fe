"""Several agents, one question: is this group colluding? Five ways to make one score of a scenario from its agents.

A probe for deception gives each agent a score; its activation vector is x_a. After Rose et al. 2026, "Detecting Multi-Agent Collusion
Through Multi-Agent Interpretability" (NARCBench), a scenario's score is

- ``peak_suspicion``: the largest score of an agent.
- ``deception_split``: the mean of the upper half of the scores minus the mean of the rest; half the agents against the others.
- ``activation_alignment``: minus the mean cosine of pairs of agents' vectors; needs no probe.
- ``asymmetry``: a logistic readout, trained on groups, of [variance, range, split, mean] of the scores.
- ``sorted_concatenation``: a logistic readout, trained on groups, of the agents' vectors side by side in falling order of score,
  within the first principal components.

No single one is best for all collusion, says the paper, so all five are measured and none is picked.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA

from transect.decide._folds import fit_in_own_space
from transect.errors import InputError
from transect.linear import Readout
from transect.measure import Estimate, auroc_statistic, bootstrap, estimates
from transect.measure._inputs import Floats, as_floats, as_positives

_COMPONENTS = 50


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentScores:
    """AUROC of the five aggregations on scenarios that trained none of them; the intervals hold all at once."""

    peak_suspicion: Estimate
    deception_split: Estimate
    activation_alignment: Estimate
    asymmetry: Estimate
    sorted_concatenation: Estimate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Suspect:
    """A token that stands out.

    Args:
        agent: its index.
        position: of the token among the agent's.
        token: in words, where words were given.
        score: of the probe there.
        deviation: how many robust standard deviations above the median of the scenario's tokens (1.4826 times the median
            absolute deviation); infinite where the other tokens are all alike.
    """

    agent: int
    position: int
    token: str | None
    score: float
    deviation: float


def agent_scores(token_scores: Sequence[Any]) -> Floats:
    """``[a]``: the mean score of each agent's tokens.

    Args:
        token_scores: one array ``[t]`` for each agent, of any lengths.

    Raises:
        InputError: an agent without tokens, or NaN.

    Examples:
        >>> agent_scores([[1.0, 3.0], [5.0]]).tolist()
        [2.0, 5.0]
    """
    return np.array([as_floats(one, name=f"token scores of agent {agent}").mean() for agent, one in enumerate(token_scores)])


def peak_suspicion(scores: Any) -> Floats:
    """``[s]``: the largest score of each scenario's agents ``[s, a]``.

    Examples:
        >>> peak_suspicion([[0.0, 3.0, 1.0]]).tolist()
        [3.0]
    """
    return _as_agents(scores).max(axis=1)


def deception_split(scores: Any) -> Floats:
    """``[s]``: mean of the upper half of the agents' scores ``[s, a]`` minus the mean of the others (the middle one is among them).

    Examples:
        >>> deception_split([[0.0, 4.0, 2.0, 0.0]]).tolist()
        [3.0]
    """
    falling = -np.sort(-_as_agents(scores), axis=1)
    half = falling.shape[1] // 2
    return falling[:, :half].mean(axis=1) - falling[:, half:].mean(axis=1)


def activation_alignment(vectors: Any) -> Floats:
    """``[s]``: minus the mean cosine over pairs of agents, of vectors ``[s, a, d]``.

    Raises:
        InputError: fewer than two agents, or a vector of zeros.

    Examples:
        >>> activation_alignment([[[1.0, 0.0], [0.0, 1.0]]]).tolist()
        [0.0]
    """
    x = _as_vectors(vectors)
    length = np.linalg.norm(x, axis=2, keepdims=True)
    if (length == 0).any():
        raise InputError(f"scenario {int(np.argwhere(length == 0)[0, 0])} has an agent whose vector is all zeros, so it has no direction.")
    total = np.einsum("sad,sbd->sab", x / length, x / length)
    first, second = np.triu_indices(x.shape[1], k=1)
    return 0.0 - total[:, first, second].mean(axis=1)


def asymmetry_features(scores: Any) -> Floats:
    """``[s, 4]``: variance, range, split and mean of the agents' scores ``[s, a]``.

    Examples:
        >>> asymmetry_features([[0.0, 4.0, 2.0, 0.0]]).round(2).tolist()
        [[2.75, 4.0, 3.0, 1.5]]
    """
    values = _as_agents(scores)
    return np.stack([values.var(axis=1), np.ptp(values, axis=1), deception_split(values), values.mean(axis=1)], axis=1)


def fit_asymmetry(scores: Any, colluding: Any, *, C: float = 0.01) -> Readout:
    """A logistic readout of `asymmetry_features`, trained on scenarios; ``C`` on standardised columns, as in the paper.

    Raises:
        InputError: one class only, NaN, lengths that differ.
    """
    return _fit(asymmetry_features(scores), colluding, C)


def sorted_concatenation(vectors: Any, scores: Any) -> Floats:
    """``[s, a * d]``: each scenario's vectors ``[s, a, d]`` side by side, the most suspicious agent first.

    Examples:
        >>> sorted_concatenation([[[1.0, 2.0], [3.0, 4.0]]], [[0.0, 1.0]]).tolist()
        [[3.0, 4.0, 1.0, 2.0]]
    """
    x, values = _as_vectors(vectors), _as_agents(scores)
    if values.shape != x.shape[:2]:
        raise InputError(f"scores must be [s, a] = {list(x.shape[:2])} like the vectors, got {list(values.shape)}.")
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(x, order[:, :, None], axis=1).reshape(len(x), -1)


def fit_sorted_concatenation(vectors: Any, scores: Any, colluding: Any, *, C: float = 0.01) -> Readout:
    """A logistic readout of `sorted_concatenation` within its first 50 principal components, written out in full width.

    Raises:
        InputError: one class only, NaN, shapes that do not fit.
    """
    rows = sorted_concatenation(vectors, scores)
    pca = PCA(min(_COMPONENTS, len(rows) - 1, rows.shape[1]), svd_solver="full").fit(rows)
    inner = _fit(pca.transform(rows), colluding, C)
    weight = inner.weight @ torch.from_numpy(np.asarray(pca.components_, dtype=np.float64))
    bias = inner.bias - weight @ torch.from_numpy(np.asarray(pca.mean_, dtype=np.float64))
    return dataclasses.replace(inner, weight=weight, bias=bias)


def evaluate_agents(
    vectors: Any,
    scores: Any,
    colluding: Any,
    *,
    asymmetry: Readout,
    concatenation: Readout,
    groups: Any = None,
    level: float = 0.95,
    seed: int = 0,
) -> AgentScores:
    """AUROC of the five aggregations on scenarios that trained neither the probe nor the two readouts.

    Args:
        vectors: ``[s, a, d]``.
        scores: ``[s, a]``, from a probe for single agents.
        colluding: ``[s]``.
        asymmetry: from `fit_asymmetry`.
        concatenation: from `fit_sorted_concatenation`.
        groups: ``[s]``, such as the domain.
        level: how often all five intervals should hold the truth together.
        seed: of the resamples.

    Raises:
        InputError: one class only, shapes that do not fit, NaN.
    """
    features = torch.from_numpy(asymmetry_features(scores))
    rows = torch.from_numpy(sorted_concatenation(vectors, scores))
    every = [
        peak_suspicion(scores),
        deception_split(scores),
        activation_alignment(vectors),
        asymmetry.scores(features).numpy(),
        concatenation.scores(rows).numpy(),
    ]
    measured = bootstrap([auroc_statistic(one, colluding) for one in every], groups=groups, seed=seed)
    return AgentScores(
        **dict(zip([f.name for f in dataclasses.fields(AgentScores)], estimates(measured, level=level, simultaneous=True), strict=True))
    )


def suspects(token_scores: Sequence[Any], *, tokens: Sequence[Sequence[str]] | None = None, most: int = 5) -> tuple[Suspect, ...]:
    """The tokens of a scenario with the highest scores, highest first.

    Args:
        token_scores: one array ``[t]`` for each agent.
        tokens: the tokens in words, alike in shape.
        most: how many.

    Raises:
        InputError: words that do not fit the scores, NaN.

    Examples:
        >>> [(found.agent, found.token) for found in suspects([[0.0, 9.0], [1.0]], tokens=[["buy", "red"], ["ok"]], most=1)]
        [(0, 'red')]
    """
    arrays = [as_floats(one, name=f"token scores of agent {agent}") for agent, one in enumerate(token_scores)]
    if tokens is not None and [len(one) for one in tokens] != [len(one) for one in arrays]:
        raise InputError("tokens must be one list per agent, as long as its scores.")
    values = np.concatenate(arrays)
    where = [(agent, position) for agent, one in enumerate(arrays) for position in range(len(one))]
    middle = np.median(values)
    spread = 1.4826 * np.median(np.abs(values - middle))
    found: list[Suspect] = []
    for index in map(int, np.argsort(-values, kind="stable")[:most]):
        agent, position = where[index]
        above = values[index] - middle
        deviation = above / spread if spread > 0 else (np.inf if above > 0 else 0.0)
        word = None if tokens is None else str(tokens[agent][position])
        found.append(Suspect(agent=agent, position=position, token=word, score=float(values[index]), deviation=float(deviation)))
    return tuple(found)


def _as_agents(scores: Any) -> Floats:
    values = as_floats(scores, name="scores", ndim=(2,))
    if values.shape[1] < 2:
        raise InputError(f"a scenario needs at least two agents, got scores [s, a] of shape {list(values.shape)}.")
    return values


def _as_vectors(vectors: Any) -> Floats:
    x = as_floats(vectors, name="vectors", ndim=(3,))
    if x.shape[1] < 2:
        raise InputError(f"a scenario needs at least two agents, got vectors [s, a, d] of shape {list(x.shape)}.")
    return x


def _fit(rows: Floats, colluding: Any, C: float) -> Readout:
    labels = as_positives(colluding, n=len(rows), name="colluding")
    if labels.all() or not labels.any():
        raise InputError(f"all {len(labels)} training scenarios are {'colluding' if labels[0] else 'honest'}; both kinds are needed.")
    return fit_in_own_space(rows, labels, C=C)
