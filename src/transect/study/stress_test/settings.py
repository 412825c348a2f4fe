"""How a stress test is run."""

import dataclasses
from typing import Any, get_args

from transect.data.rewriting.apply import LabelEffect
from transect.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class StressSettings:
    """What a stress test tries and how carefully it looks; every field ends up in its report.

    Args:
        ranks: numbers of dimensions to compare with the single direction.
        most_directions: where counting directions stops.
        prompts: also read every text after each of several instructions, which runs the model on every text that many times more.
        negation: what negating a text does to its label, where the table does not say: ``keeps`` or ``flips``.
        entity_swap: what other entities do to it.
        permutations: shuffled labellings behind every p value and every null.
        refits: bootstrap refits behind agreement and relabelling.
        resamples: bootstrap resamples of an interval.
        level: the share of intervals that should hold the truth.
        seed: the seed of everything random.

    Raises:
        InputError: a number outside its range, or an effect that is neither ``keeps`` nor ``flips``.

    Examples:
        >>> StressSettings(ranks=(1, 4)).ranks
        (1, 4)
    """

    ranks: tuple[int, ...] = (1, 2, 3, 5, 10)
    most_directions: int = 100
    prompts: bool = True
    negation: LabelEffect | None = None
    entity_swap: LabelEffect | None = None
    permutations: int = 200
    refits: int = 50
    resamples: int = 2000
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("permutations", "refits", "resamples"):
            if getattr(self, name) < 20:
                raise InputError(f"{name} must be at least 20, got {getattr(self, name)}; fewer draws say nothing about a tail.")
        if not self.ranks or min(self.ranks) < 1 or list(self.ranks) != sorted(set(self.ranks)):
            raise InputError(f"ranks must be rising numbers from 1, got {self.ranks}.")
        for name in ("negation", "entity_swap"):
            if getattr(self, name) not in (None, *get_args(LabelEffect)):
                raise InputError(f"{name} must be one of {get_args(LabelEffect)} or None, got {getattr(self, name)!r}.")
        if self.most_directions < 1:
            raise InputError(f"most_directions must be at least 1, got {self.most_directions}.")
        if not 0.5 <= self.level < 1:
            raise InputError(f"level must lie between 0.5 and 1, got {self.level}; 0.95 is usual.")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**dataclasses.asdict(self), "ranks": list(self.ranks)}
