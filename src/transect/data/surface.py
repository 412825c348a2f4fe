"""How far the surface of a text (its length, its single words) gives the label away.

Strength is direction-free: ``max(a, 1 - a)`` of the AUROC of one class against the rest, or the absolute Spearman
correlation for numbers. Significance respects groups: with ``u_g`` the sum over group g of (feature - mean) times
(label - mean), ``z = sum u_g / sqrt(sum u_g^2)``, a score test that stays valid when rows of one group are not
independent (Liang and Zeger, 1986), times the number of things tried (Bonferroni). So a word that happens to lean one way in a
small table raises no alarm, and in a set whose groups are balanced word by word every z is exactly 0.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from transect.data.table import Table

if TYPE_CHECKING:
    from scipy import sparse

MOST_ROWS_FOR_WORDS = 200_000
FEWEST_ROWS_WITH_WORD = 5
SIGNIFICANT = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class Surface:
    """The strongest of the features that were tried; of the significant ones (p < 0.01) if there are any.

    Args:
        feature: its name: "length", or the word.
        target: the class it points to or away from; None for numbers and where nothing could be tried.
        strength: 0.5 (nothing) to 1 for classes, 0 to 1 for numbers.
        p: of finding this by chance, corrected for the number tried.
        tried: how many pairs of feature and class.
        rows: how many rows were looked at.
    """

    feature: str
    target: Any
    strength: float
    p: float
    tried: int
    rows: int


def length_surface(table: Table, groups: np.ndarray) -> Surface:
    """How well the number of characters predicts the label."""
    from scipy import sparse
    from scipy.stats import rankdata

    ranks = rankdata([len(text) for text in table.texts])
    return _strongest(sparse.csc_array(ranks[:, None]), ["length"], table, groups, scale=float(len(table)))


def word_surface(table: Table, groups: np.ndarray) -> Surface:
    """How well the presence of the best single word predicts the label, over words in at least 5 rows and missing from 5."""
    from scipy import sparse
    from sklearn.feature_extraction.text import CountVectorizer

    if len(table) > MOST_ROWS_FOR_WORDS:
        rows = np.sort(np.random.default_rng(0).choice(len(table), MOST_ROWS_FOR_WORDS, replace=False))
        table, groups = table.take(rows), groups[rows]
    nothing = Surface(feature="", target=None, strength=0.0 if table.kind == "number" else 0.5, p=1.0, tried=0, rows=len(table))
    most = len(table) - FEWEST_ROWS_WITH_WORD
    if most < FEWEST_ROWS_WITH_WORD:
        return nothing
    # Every run of letters and digits is a word, single ones too: "a" and "no" can give a label away.
    vectorizer = CountVectorizer(
        binary=True, preprocessor=str.casefold, token_pattern=r"(?u)\b\w+\b", min_df=FEWEST_ROWS_WITH_WORD, max_df=most
    )
    try:
        present = sparse.csc_array(vectorizer.fit_transform(table.texts), dtype=np.float64)
    except ValueError:
        return nothing  # scikit-learn's way of saying that no word is left
    return _strongest(present, vectorizer.get_feature_names_out().tolist(), table, groups, scale=2.0)


def _strongest(features: "sparse.csc_array", names: Sequence[str], table: Table, groups: np.ndarray, *, scale: float) -> Surface:
    from scipy.stats import norm, rankdata

    targets: dict[Any, np.ndarray] = {}
    if table.kind == "number":
        targets[None] = rankdata(table.targets)
    else:
        present = np.unique(table.codes).tolist()
        # Of two classes one is enough: the other says the same in the other direction.
        for code in present[-1:] if len(present) == 2 else present:
            targets[(table.classes or ())[code]] = (table.codes == code).astype(np.float64)
    tried = len(names) * len(targets)
    found: list[Surface] = []
    for target, values in targets.items():
        strength = _correlation(features, values) if table.kind == "number" else _separation(features, values, scale)
        p = np.minimum(1.0, 2 * norm.sf(np.abs(_group_scores(features, values, groups))) * tried)
        at = int(np.argmax(np.where(p < SIGNIFICANT, 1.0, 0.0) + strength))
        found.append(Surface(feature=names[at], target=target, strength=float(strength[at]), p=float(p[at]), tried=tried, rows=len(table)))
    return max(found, key=lambda surface: (surface.p < SIGNIFICANT, surface.strength))


def _separation(features: "sparse.csc_array", member: np.ndarray, scale: float) -> np.ndarray:
    """``[w]`` direction-free AUROC of each feature: half the difference of means for 0/1, that of ranks over n for ranks."""
    inside, outside = member.sum(), (1 - member).sum()
    return np.minimum(0.5 + np.abs(features.T @ (member / inside - (1 - member) / outside)) / scale, 1.0)


def _correlation(features: "sparse.csc_array", values: np.ndarray) -> np.ndarray:
    """``[w]`` absolute correlation of each feature with the values."""
    centred = values - values.mean()
    mean = np.asarray(features.mean(axis=0)).ravel()
    variance = np.asarray(features.power(2).mean(axis=0)).ravel() - mean**2
    spread = np.sqrt(np.maximum(variance, 0) * (centred**2).mean())
    return np.abs(features.T @ centred) / len(values) / np.where(spread > 0, spread, np.inf)


def _group_scores(features: "sparse.csc_array", values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """``[w]`` the z of the module's docstring. The features stay sparse: their means are taken off in the sums."""
    from scipy import sparse

    n = len(values)
    residual = values - values.mean()
    member = sparse.csr_array((residual, (groups, np.arange(n))), shape=(int(groups.max()) + 1, n))
    by_group: Any = member @ features
    mean = np.asarray(features.mean(axis=0)).ravel()
    total = np.asarray(member.sum(axis=1)).ravel()
    squares = np.asarray(by_group.power(2).sum(axis=0)).ravel() - 2 * mean * (by_group.T @ total) + mean**2 * (total**2).sum()
    score = np.asarray(by_group.sum(axis=0)).ravel() - mean * total.sum()
    # Rounding leaves tiny values where the groups are balanced exactly.
    scale = np.asarray(abs(features).max(axis=0).todense()).ravel() * np.abs(residual).max()
    spread = np.sqrt(np.maximum(squares, 0))
    return np.divide(score, spread, out=np.zeros_like(score), where=spread > 1e-6 * scale)
