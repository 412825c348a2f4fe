"""`Estimate`: a measured number that carries its uncertainty."""

import dataclasses
import math
from typing import Any

from transect.errors import InputError


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A value with an interval.

    Args:
        value: the number that was measured.
        low: lower end of the interval; NaN where no interval was made.
        high: upper end.
        level: the share of such intervals that should hold the truth.
        n: examples behind the number.
        groups: independent groups behind it.
        method: how the interval was made, in words.

    Raises:
        InputError: the ends are the wrong way round, or the level is not between 0 and 1.

    Examples:
        >>> estimate = Estimate(0.98, 0.95, 0.99, n=100)
        >>> print(estimate)
        0.98 [0.95, 0.99]
        >>> estimate.excludes(0.5)
        True
    """

    value: float
    low: float
    high: float
    level: float = 0.95
    n: int | None = None
    groups: int | None = None
    method: str = ""

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise InputError(f"an interval needs low <= high, got [{self.low}, {self.high}].")
        if not 0 < self.level < 1:
            raise InputError(f"level must lie between 0 and 1, got {self.level}; 0.95 is usual.")

    @property
    def has_interval(self) -> bool:
        """Whether an interval was made."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    @property
    def half_width(self) -> float:
        """Half the width of the interval; NaN without one."""
        return (self.high - self.low) / 2

    def excludes(self, value: float) -> bool:
        """Whether the interval lies wholly above or wholly below a value; False without an interval."""
        return self.low > value or self.high < value

    def to_json(self) -> dict[str, Any]:
        """Plain values; what is missing is None."""
        fields = dataclasses.asdict(self)
        return {name: None if isinstance(item, float) and math.isnan(item) else item for name, item in fields.items()}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Estimate":
        """Back from `to_json`."""
        numbers = {name: math.nan if fields[name] is None else fields[name] for name in ("value", "low", "high")}
        return cls(**numbers, **{name: fields[name] for name in ("level", "n", "groups", "method")})

    @classmethod
    def bare(cls, value: float, *, n: int | None = None, method: str = "no interval") -> "Estimate":
        """A value for which no interval was made."""
        return cls(value, math.nan, math.nan, n=n, method=method)

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]" if self.has_interval else f"{self.value:.2f}"
