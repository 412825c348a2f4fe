"""Deciding at the first token: answer, refuse, or warn.

The logits with which a model begins its reply hold whether it should reply at all. A linear probe reads them: on the log-softmax of the
first token's logits (logits are defined up to a constant only, and the softmax takes it away), or on log-probabilities of some
candidate tokens. It decides before anything is generated, and is compared with the same probe at later tokens, where the paper finds that
the signal fades.

Source: Zhao et al. 2024, "The First to Know: How Token Distributions Reveal Hidden Knowledge in Large Vision-Language Models?"
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from transect.decide._folds import fit_in_own_space, grouped_folds, out_of_fold
from transect.errors import InputError
from transect.linear import Readout
from transect.measure import Estimate, bootstrap, difference, estimates
from transect.measure._inputs import Floats, as_floats, plain
from transect.measure.cross_validated import cross_validated_auroc_statistic, cross_validated_macro_auroc_statistic


@dataclasses.dataclass(frozen=True, kw_only=True)
class FirstToken:
    """The same probe at the first token and at later ones, out of fold.

    Args:
        positions: AUROC at each token of the reply (macro AUROC for more than two decisions); the intervals hold all at once.
        classes: the decisions.
        drop: AUROC at the first token minus that at the last, paired; None with one position.
    """

    positions: tuple[Estimate, ...]
    classes: tuple[Any, ...]
    drop: Estimate | None


def logit_features(logits: Any) -> Floats:
    """``[n, v]``: natural logarithms of probability, from logits ``[n, v]``; those of the whole vocabulary or of candidates only.

    Raises:
        InputError: NaN (its row is named), fewer than two tokens.

    Examples:
        >>> logit_features([[1.0, 1.0], [5.0, 5.0]]).round(3).tolist()
        [[-0.693, -0.693], [-0.693, -0.693]]
    """
    values = as_floats(logits, name="logits", ndim=(2,))
    if values.shape[1] < 2:
        raise InputError(f"logits [n, v] need at least two tokens to choose between, got shape {list(values.shape)}.")
    return special.log_softmax(values, axis=1)


def fit_first_token(logits: Any, decisions: Any, *, C: float = 0.01) -> Readout:
    """A probe that decides from `logit_features` of the first token.

    Args:
        logits: ``[n, v]``, such as `NextToken.logits` or `NextToken.log_probabilities`.
        decisions: ``[n]``, such as ``"answer"``, ``"refuse"``, ``"warn"``.
        C: inverse strength of the penalty, on standardised columns.

    Raises:
        InputError: one decision only, NaN, lengths that differ.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> logits = rng.standard_normal((60, 5)) + np.eye(5)[np.arange(60) % 2] * 4
        >>> readout = fit_first_token(logits, np.array(["answer", "refuse"])[np.arange(60) % 2])
        >>> readout.classes, decide_first_token(readout, [[9.0, 0, 0, 0, 0]])
        (('answer', 'refuse'), ['answer'])
    """
    return fit_in_own_space(logit_features(logits), plain(decisions), C=C)


def decide_first_token(readout: Readout, logits: Any) -> list[Any]:
    """What the probe decides for each row of first-token logits ``[n, v]``."""
    import torch

    return readout.predict(torch.from_numpy(logit_features(logits)))


def compare_tokens(
    logits: Sequence[Any],
    decisions: Any,
    *,
    groups: Any = None,
    C: float = 0.01,
    folds: int = 5,
    level: float = 0.95,
    seed: int = 0,
) -> FirstToken:
    """How well the decision is read at the first token and at later ones.

    Intervals are for the probes as they were fitted: how much another fit would differ is not in them.

    Args:
        logits: one array ``[n, v]`` for each token of the reply, the first one first.
        decisions: ``[n]``.
        groups: ``[n]``, kept whole in folds and resamples.
        C: as for `fit_first_token`.
        folds: of the cross-validation.
        level: how often all intervals should hold the truth together.
        seed: of folds and resamples.

    Raises:
        InputError: no position, one decision only, NaN (its row is named), lengths that differ, fewer groups than folds.
    """
    if len(logits) == 0:
        raise InputError("there are no logits to compare; give one array [n, v] for each token.")
    classes, codes = np.unique(plain(decisions), return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"all {len(codes)} decisions are {classes.tolist()}; at least two kinds are needed.")
    features = [logit_features(one) for one in logits]
    if {len(one) for one in features} != {len(codes)}:
        raise InputError(f"expected {len(codes)} rows like the decisions at every token, got {[len(one) for one in features]}.")
    fold_of = grouped_folds(len(codes), classes=codes, groups=groups, folds=folds, seed=seed)
    statistic = cross_validated_auroc_statistic if len(classes) == 2 else cross_validated_macro_auroc_statistic
    measured = [statistic(out_of_fold(one, codes, fold_of, C=C), codes, fold_of) for one in features]
    found = estimates(bootstrap(measured, groups=groups, seed=seed), level=level, simultaneous=True)
    drop = difference(measured[0], measured[-1], groups=groups, level=level, seed=seed) if len(measured) > 1 else None
    return FirstToken(positions=tuple(found), classes=tuple(classes.tolist()), drop=drop)
