"""What the leakage audit gives back."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

Severity = Literal["ok", "warn", "fail"]
_ORDER: tuple[Severity, ...] = ("ok", "warn", "fail")
EXAMPLES = 3
_EXAMPLE_LENGTH = 200


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One check of one table, or of a pair of tables.

    Args:
        check: which check, as listed in `transect.data.leakage`.
        table: the table's name.
        other: the training table, where the two are compared; None otherwise.
        severity: ok, warn or fail.
        sentence: what was found, for people.
        numbers: the same, plain JSON values.
        examples: a few of the texts concerned, cut to 200 characters.
    """

    check: str
    table: str
    severity: Severity
    sentence: str
    other: str | None = None
    numbers: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    examples: tuple[Mapping[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "check": self.check,
            "table": self.table,
            "other": self.other,
            "severity": self.severity,
            "sentence": self.sentence,
            "numbers": dict(self.numbers),
            "examples": [dict(example) for example in self.examples],
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Leakage:
    """All findings of an audit, in the order in which they were made."""

    findings: tuple[Finding, ...]

    @property
    def severity(self) -> Severity:
        """The worst severity of all findings."""
        worst = max((_ORDER.index(finding.severity) for finding in self.findings), default=0)
        return _ORDER[worst]

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was found, the worst first."""
        ordered = sorted(self.findings, key=lambda finding: -_ORDER.index(finding.severity))
        return tuple(finding.sentence for finding in ordered)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: the severity, the sentences, and each finding with its numbers and examples."""
        return {"severity": self.severity, "sentences": list(self.sentences), "findings": [finding.to_json() for finding in self.findings]}


def cut(text: str) -> str:
    """An example text, not too long for a report."""
    return text if len(text) <= _EXAMPLE_LENGTH else text[: _EXAMPLE_LENGTH - 3] + "..."
