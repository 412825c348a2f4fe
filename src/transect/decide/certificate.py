"""`Certificate`: a threshold and what is promised of it."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np

from transect.errors import InputError
from transect.measure import Estimate
from transect.measure._inputs import as_floats

Side = Literal["fpr", "recall"]
Rule = Literal["order statistic", "fixed beforehand"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certificate:
    """A threshold and what is promised of it.

    Args:
        threshold: a row fires where its score is above this.
        side: ``fpr`` (the false-positive rate is at most the target) or ``recall`` (the recall is at least the target).
        target: the rate asked for.
        confidence: the share of calibration sets for which the promise holds.
        bound: the exact bound on the rate at that confidence: an upper one for ``fpr``, a lower one for ``recall``.
        rule: ``order statistic`` (chosen on these rows) or ``fixed beforehand`` (Clopper-Pearson).
        n: rows of the class that the promise is about.
        n_groups: independent groups among them; equal to n where no groups were given.
        grouped: whether the promise is about groups, by their most extreme row.
        empirical: the share of these groups that fire (for a recall: in which every row fires), in the calibration data.
        other: the rate on the other class with its interval: recall for ``fpr``, false-positive rate for ``recall``; None without rows.
        needed: the fewest independent groups with which such a promise can be made at all.

    Raises:
        InputError: a rate or the confidence is not between 0 and 1, or an unknown side or rule.

    Examples:
        >>> import numpy as np
        >>> from transect.decide import threshold_for_fpr
        >>> certificate = threshold_for_fpr(np.arange(1000.0), fpr=0.01)
        >>> certificate.threshold, certificate.holds
        (995.0, True)
        >>> Certificate.from_json(certificate.to_json()) == certificate
        True
    """

    threshold: float
    side: Side
    target: float
    confidence: float
    bound: float
    rule: Rule
    n: int
    n_groups: int
    grouped: bool
    empirical: float
    needed: int
    other: Estimate | None = None

    def __post_init__(self) -> None:
        check_rate(self.target, name="target")
        check_rate(self.confidence, name="confidence")
        if self.side not in get_args(Side) or self.rule not in get_args(Rule):
            raise InputError(f"side must be one of {get_args(Side)} and rule one of {get_args(Rule)}, got {self.side!r}, {self.rule!r}.")

    @property
    def holds(self) -> bool:
        """Whether the target is promised: the bound is on its right side. Always so for a threshold chosen by the rule."""
        return self.bound <= self.target if self.side == "fpr" else self.bound >= self.target

    def fires(self, scores: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which of ``scores [n]`` are above the threshold.

        Raises:
            InputError: a score is NaN or infinite; its row is named.
        """
        return as_floats(scores, name="scores") > self.threshold

    @property
    def sentence(self) -> str:
        """The promise in one sentence."""
        unit = f"{self.n_groups} independent groups of {self.n} rows" if self.grouped else f"{self.n} independent rows"
        new = "groups, any row of them counted," if self.grouped else "rows"
        which = "negative" if self.side == "fpr" else "positive"
        what = (
            f"at most {self.bound:.4g} of new {which} {new} score above {self.threshold:.6g}"
            if self.side == "fpr"
            else f"at least {self.bound:.4g} of new {which} {'groups, every row of them counted,' if self.grouped else 'rows'} score above "
            f"{self.threshold:.6g}"
        )
        verdict = "" if self.holds else f" The target of {self.target:g} is NOT certified."
        return f"With confidence {self.confidence:g}, {what} ({self.rule}, {unit}); the target is {self.target:g}.{verdict}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` gives back an equal object."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        other = None if self.other is None else self.other.to_json()
        return {**fields, "other": other, "holds": self.holds, "sentence": self.sentence}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Certificate":
        """The inverse of `to_json`."""
        fields = {name: item for name, item in value.items() if name not in {"holds", "sentence"}}
        return cls(**{**fields, "other": None if fields.get("other") is None else Estimate.from_json(fields["other"])})


def check_rate(rate: float, *, name: str) -> None:
    """Refuse what does not lie strictly between 0 and 1.

    Raises:
        InputError: it does not.
    """
    if not 0 < rate < 1:
        raise InputError(f"{name} must lie strictly between 0 and 1, got {rate}; nothing exact can be promised at the ends.")
