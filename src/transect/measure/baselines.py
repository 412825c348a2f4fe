"""What the text alone gives away, without any model: words, length, and the most common label.

A probe that does no better than these reads the surface. Each is fitted on the training texts only (strengths included, by
cross-validation over groups) and is then a `TextBaseline` that scores any texts.
"""

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from transect.errors import InputError
from transect.measure._inputs import Floats, Ints, as_classes, as_floats, as_groups, check_length
from transect.measure.metric import Kind, metric_for

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Inverse strengths C tried for the logistic; for ridge the penalty is 1 / C."""

MOST_WORDS = 50_000
"""The most words and pairs of words that bag of words keeps: the most frequent ones."""


@dataclasses.dataclass(frozen=True, eq=False)
class TextBaseline:
    """A fitted baseline.

    Args:
        name: ``bag_of_words``, ``length`` or ``majority``.
        title: its name in sentences.
        detail: what was chosen and kept, in words.
        kind: of the label.
        score_texts: texts to scores; use `scores`.
    """

    name: str
    title: str
    detail: str
    kind: Kind
    score_texts: Callable[[Sequence[str]], Floats]

    def scores(self, texts: Sequence[str]) -> Floats:
        """Scores ``[n]`` (two classes: log-odds; a number: the prediction) or ``[n, k]``."""
        if len(texts) == 0:
            raise InputError("there are no texts to score.")
        return self.score_texts(texts)


def fit_bag_of_words(texts: Sequence[str], targets: Any, *, kind: Kind = "binary", groups: Any = None, seed: int = 0) -> TextBaseline:
    """TF-IDF of words and pairs of words, then logistic regression (ridge for a number); the strength by grouped cross-validation.

    Args:
        texts: ``[n]`` training texts.
        targets: ``[n]`` class indices from 0 to k - 1, or numbers.
        kind: of the label.
        groups: ``[n]``, kept whole in the folds; None makes each row its own group.
        seed: of the folds.

    Raises:
        InputError: one class only, or lengths that differ.

    Examples:
        >>> words = fit_bag_of_words(["good film", "bad film", "good book", "bad book"] * 3, [1, 0, 1, 0] * 3)
        >>> (words.scores(["a good day", "a bad day"]) > 0).tolist()
        [True, False]
    """
    truth = _targets(texts, targets, kind)

    def pipeline(strength: float) -> Any:
        # The pattern keeps single letters and digits, which scikit-learn's own drops: they may give the label away.
        words = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b", sublinear_tf=True, max_features=MOST_WORDS)
        return make_pipeline(words, _linear(kind, strength))

    try:
        strength, how = _choose_strength(pipeline, texts, truth, kind=kind, groups=groups, seed=seed)
        fitted = _fit(pipeline(strength), texts, truth)
    except ValueError as error:
        if "vocabulary" not in str(error):
            raise
        return _constant(truth, kind, name="bag_of_words", title="bag of words", detail="the texts hold no words")
    detail = f"{len(fitted[0].vocabulary_)} words and pairs of words, C = {strength:g} {how}"
    return TextBaseline("bag_of_words", "bag of words", detail, kind, lambda new: _decide(fitted, list(new), kind))


def fit_length(texts: Sequence[str], targets: Any, *, kind: Kind = "binary") -> TextBaseline:
    """Numbers of characters and of words (and their logarithms), standardised, then logistic regression (ridge for a number).

    Args:
        texts: ``[n]`` training texts.
        targets: ``[n]`` class indices, or numbers.
        kind: of the label.

    Raises:
        InputError: one class only, or lengths that differ.
    """
    truth = _targets(texts, targets, kind)

    fitted = _fit(make_pipeline(StandardScaler(), _linear(kind, 1.0)), _lengths(texts), truth)
    return TextBaseline("length", "text length", "characters and words", kind, lambda new: _decide(fitted, _lengths(new), kind))


def fit_majority(texts: Sequence[str], targets: Any, *, kind: Kind = "binary") -> TextBaseline:
    """The same answer for every text: the class frequencies (as log-odds), or the mean."""
    truth = _targets(texts, targets, kind)
    return _constant(truth, kind, name="majority", title="most common label", detail="the same for every text")


def _targets(texts: Sequence[str], targets: Any, kind: Kind) -> Floats | Ints:
    metric_for(kind)
    truth = as_floats(targets, name="targets") if kind == "number" else as_classes(targets, n=len(texts), name="targets")
    check_length(truth, n=len(texts), name="targets")
    if len(np.unique(truth)) < 2:
        raise InputError(f"a baseline needs targets that differ, but all {len(truth)} are {truth[0]:g}.")
    if kind != "number" and len(np.unique(truth)) != truth.max() + 1:
        raise InputError(f"the training texts hold classes {np.unique(truth).tolist()}; every index from 0 to {truth.max()} must occur.")
    if kind == "binary" and truth.max() > 1:
        raise InputError(f"kind is 'binary' but targets go up to {truth.max()}; use kind='multiclass'.")
    return truth


def _linear(kind: Kind, strength: float) -> Any:
    # newton-cg: the steps of lbfgs cost a call into threaded BLAS each, which is slow on a busy machine and wins nothing here.
    return Ridge(alpha=1 / strength) if kind == "number" else LogisticRegression(C=strength, max_iter=500, solver="newton-cg")


def _fit(pipeline: Any, data: Any, truth: Floats | Ints) -> Any:
    with warnings.catch_warnings():
        # A baseline within 500 steps of its optimum ranks the same; its warning would only worry the reader.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return pipeline.fit(list(data) if isinstance(data, (list, tuple)) else data, truth)


def _decide(fitted: Any, data: Any, kind: Kind) -> Floats:
    scores = fitted.predict(data) if kind == "number" else fitted.decision_function(data)
    return np.asarray(scores, dtype=np.float64)


def _choose_strength(
    pipeline: Callable[[float], Any], texts: Sequence[str], truth: Floats | Ints, *, kind: Kind, groups: Any, seed: int
) -> tuple[float, str]:
    codes, _ = as_groups(groups, n=len(texts))
    metric = metric_for(kind)
    folds = [(fit, held) for fit, held in _folds(truth, codes, kind, seed) if _usable(truth, fit, held, kind)]
    if not folds:
        return 1.0, "(too few groups to choose it)"
    means = []
    for strength in STRENGTHS:
        fitted = [_fit(pipeline(strength), [texts[i] for i in fit], truth[fit]) for fit, _ in folds]
        scores = [_decide(model, [texts[i] for i in held], kind) for model, (_, held) in zip(fitted, folds, strict=True)]
        means.append(np.mean([metric.measure(score, truth[held]) for score, (_, held) in zip(scores, folds, strict=True)]))
    return STRENGTHS[int(np.argmax(np.round(means, 9)))], f"by {len(folds)} folds"


def _folds(truth: Floats | Ints, codes: Ints, kind: Kind, seed: int) -> list[tuple[Ints, Ints]]:
    n_folds = min(5, len(np.unique(codes)))
    if kind != "number":
        n_folds = min(n_folds, *(len(np.unique(codes[truth == label])) for label in np.unique(truth)))
    if n_folds < 2:
        return []
    kfold = GroupKFold if kind == "number" else StratifiedGroupKFold
    return list(kfold(n_folds, shuffle=True, random_state=seed).split(np.zeros(len(codes)), truth, codes))


def _usable(truth: Floats | Ints, fit: Ints, held: Ints, kind: Kind) -> bool:
    if kind == "number":
        return len(np.unique(truth[held])) > 1
    classes = len(np.unique(truth))
    return len(np.unique(truth[fit])) == classes and len(np.unique(truth[held])) == classes


def _lengths(texts: Sequence[str]) -> Floats:
    plain_counts = np.array([[len(text), len(text.split())] for text in texts], dtype=np.float64)
    return np.concatenate([plain_counts, np.log1p(plain_counts)], axis=1)


def _constant(truth: Floats | Ints, kind: Kind, *, name: str, title: str, detail: str) -> TextBaseline:
    if kind == "number":
        answer = np.array([truth.mean()])
    else:
        share = np.bincount(truth.astype(np.int64)) / len(truth)
        answer = np.log(share[1:] / share[0]) if kind == "binary" else np.log(share)

    def score_texts(new: Sequence[str]) -> Floats:
        rows = np.tile(answer, (len(new), 1))
        return rows if kind == "multiclass" else rows[:, 0]

    return TextBaseline(name, title, detail, kind, score_texts)
