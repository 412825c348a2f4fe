"""How a study is run."""

import dataclasses
from typing import Any, Literal, get_args

from transect.errors import InputError, near_matches

Control = Literal["untrained"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What a study reads and how carefully it looks; every field ends up in the report.

    Args:
        sites: where to read; None reads after every block, and after the final norm.
        tokens: which token is read.
        chat: wrap each text in the tokenizer's chat template.
        truncate: cut texts longer than the model's context instead of refusing them.
        verify: how many texts to capture again, one at a time, as a check.
        folds: folds of cross-validation within the development rows.
        test_fraction: the share of groups kept for the test.
        controls: costlier controls: ``untrained`` reads the same architecture with random weights.
        compare: also fit the other probes that suit the label.
        permutations: shuffled labellings, for the control and its p value.
        directions: random directions.
        refits: bootstrap refits of the chosen probe, for the stability of its direction.
        resamples: bootstrap resamples of an interval.
        level: the share of intervals that should hold the truth.
        seed: the seed of everything random.

    Raises:
        InputError: a number outside its range, or an unknown control.

    Examples:
        >>> Settings(folds=4, controls=("untrained",)).folds
        4
    """

    sites: tuple[str, ...] | None = None
    tokens: str = "last"
    chat: bool = False
    truncate: bool = False
    verify: int = 0
    folds: int = 5
    test_fraction: float = 0.3
    controls: tuple[str, ...] = ()
    compare: bool = True
    permutations: int = 200
    directions: int = 200
    refits: int = 200
    resamples: int = 2000
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("permutations", "directions", "refits", "resamples"):
            if getattr(self, name) < 20:
                raise InputError(f"{name} must be at least 20, got {getattr(self, name)}; fewer draws say nothing about a tail.")
        if self.folds < 2:
            raise InputError(f"folds must be at least 2, got {self.folds}.")
        if not 0 < self.test_fraction < 1:
            raise InputError(
                f"test_fraction must lie between 0 and 1, got {self.test_fraction}; 0.3 keeps three groups in ten for the test."
            )
        if not 0.5 <= self.level < 1:
            raise InputError(f"level must lie between 0.5 and 1, got {self.level}; 0.95 is usual.")
        unknown = [control for control in self.controls if control not in get_args(Control)]
        if unknown:
            raise InputError(f"there is no control {unknown[0]!r}: {near_matches(unknown[0], get_args(Control))}")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**dataclasses.asdict(self), "sites": None if self.sites is None else list(self.sites), "controls": list(self.controls)}
