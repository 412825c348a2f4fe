"""The JSON Schema of ``report.json``, which ships in the package; `transect.report.make_schema` makes it from the records."""

import functools
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

FILE = "report.schema.json"


def report_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of ``report.json``.

    Examples:
        >>> report_schema()["title"]
        'transect.report/1'
    """
    return json.loads(resources.files("transect.report").joinpath(FILE).read_text(encoding="utf-8"))


@functools.cache
def field_docs(record: type) -> Mapping[str, str]:
    """The documentation of each field of a record, in the words of the schema."""
    fields = report_schema()["$defs"][record.__name__]["properties"]
    return {name: field["description"] for name, field in fields.items()}
