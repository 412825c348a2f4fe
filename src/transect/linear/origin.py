"""Where a fitted object came from: enough to know where it may be used and to make it again."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from transect.errors import MismatchError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Origin:
    """The place a fitted object reads or writes, and how it was made.

    A fitter that was given bare arrays knows none of this, so every field may be None.
    """

    site: str | None = None
    """The site's name, for example ``layers[12]``."""
    tokens: str | None = None
    """The token rule, for example ``last``."""
    model: str | None = None
    """The model's fingerprint."""
    model_name: str | None = None
    """What the model was loaded from, for people."""
    fitter: str | None = None
    """The class that fitted the object, for example ``Logistic``."""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The fitter's settings, plain JSON values."""
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What it was fitted on: names, digests, counts; plain JSON values."""
    scores: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What it scored where, plain JSON values."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` gives back an equal object."""
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Origin":
        """The inverse of `to_json`; keys of a newer version are refused by name."""
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(value) - known)
        if unknown:
            raise MismatchError(f"unknown provenance fields {unknown}; written by a newer transect? Upgrade transect and load it again.")
        return cls(**value)

    def check_model(self, fingerprint: str, *, force: bool = False) -> None:
        """Refuse a model other than the one the object was fitted on.

        Raises:
            MismatchError: both fingerprints are known and differ, unless forced.
        """
        if force or self.model is None or self.model == fingerprint:
            return
        raise MismatchError(
            f"this object was fitted on model {self.model_name or '?'} ({self.model}), but the model given is {fingerprint}. "
            f"Scores would mean nothing. Load the model it was fitted on, or force it (--force, force=True) if you know better."
        )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
