"""`Certified`: what was promised of a run's probe, as ``certificate.json`` holds it."""

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transect.decide import Certificate, SequenceCertificate
from transect.errors import StoreError

SCHEMA = "transect.certificate/1"
CERTIFICATE = "certificate.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certified:
    """What is promised of a probe's threshold, and on which rows.

    Args:
        threshold: a text fires where its score (or the statistic of its token scores) is above this.
        fpr: the promise on negatives; None where none was asked for.
        recall: the promise on positives; None where none was asked for.
        about: the probe, the model and the tables, plain JSON values.
        excluded: rows left out by table, because they share a text or a group with the probe's training table.
        created: when, in ISO 8601 with the time zone.
        transect: the version of transect.
    """

    threshold: float
    fpr: Certificate | SequenceCertificate | None
    recall: Certificate | None
    about: Mapping[str, Any]
    excluded: Mapping[str, int]
    created: str
    transect: str

    @property
    def sentences(self) -> tuple[str, ...]:
        """The promises and what was left out, one sentence each."""
        promises = tuple(promise.sentence for promise in (self.fpr, self.recall) if promise is not None)
        left = tuple(
            f"{count} rows of {name} share a text or a group with the probe's training table and were left out."
            for name, count in self.excluded.items()
            if count
        )
        return promises + left

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` gives back an equal object."""
        return {
            "schema": SCHEMA,
            "created": self.created,
            "transect": self.transect,
            "threshold": self.threshold,
            "fpr": None if self.fpr is None else self.fpr.to_json(),
            "recall": None if self.recall is None else self.recall.to_json(),
            "about": dict(self.about),
            "excluded": dict(self.excluded),
            "sentences": list(self.sentences),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Certified":
        """The inverse of `to_json`.

        Raises:
            StoreError: another schema.
        """
        if value.get("schema") != SCHEMA:
            raise StoreError(f"expected a certificate of schema {SCHEMA!r}, got {value.get('schema')!r}. Make it again.")
        fpr, recall = value["fpr"], value["recall"]
        if fpr is not None:
            fpr = SequenceCertificate.from_json(fpr) if "bins" in fpr else Certificate.from_json(fpr)
        return cls(
            fpr=fpr,
            recall=None if recall is None else Certificate.from_json(recall),
            **{name: value[name] for name in ("threshold", "about", "excluded", "created", "transect")},
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Certified":
        """Read a ``certificate.json`` back; a folder stands for the certificate in it.

        Raises:
            StoreError: there is no such file, it is not JSON, or of another schema.
        """
        file = Path(path) / CERTIFICATE if Path(path).is_dir() else Path(path)
        try:
            return cls.from_json(json.loads(file.read_text(encoding="utf-8")))
        except OSError as error:
            raise StoreError(f"could not read {file}: {error.strerror or error}. Give a run that `transect certify` certified.") from error
        except ValueError as error:
            raise StoreError(f"{file} is not readable JSON ({error}). It may be cut short; make it again.") from error
