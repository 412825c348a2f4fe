"""The leakage audit."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from transect.data.table import Table

Severity = Literal["ok", "warn", "fail"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One check on one table or pair of tables."""

    check: str
    table: str
    severity: Severity
    sentence: str
    numbers: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    examples: tuple[Mapping[str, Any], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Leakage:
    """What the audit found."""

    findings: tuple[Finding, ...]

    @property
    def severity(self) -> Severity:
        """The worst severity of all findings."""
        raise NotImplementedError

    @property
    def sentences(self) -> tuple[str, ...]:
        """One plain sentence per finding, the worst first."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: {"severity", "findings": [{"check", "table", "severity", "sentence", "numbers", "examples"}]}."""
        raise NotImplementedError


def audit(train: Table, tests: Mapping[str, Table] | None = None, *, parts: np.ndarray | None = None) -> Leakage:
    """Look for leaks. parts: ``[n]`` of train rows, which part (fold or held-out mask) each row is in."""
    raise NotImplementedError
