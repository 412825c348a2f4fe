"""Makes the JSON Schema of ``report.json`` and its documentation from the records and the strings under their fields.

Run ``python -m transect.report.make_schema docs/report-schema.md`` after a change to the records; a test fails until that is done.
"""

import ast
import dataclasses
import inspect
import itertools
import sys
import textwrap
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from transect._files import write_json, write_text
from transect.report.codec import absent_fields, field_types, nan_fields, options
from transect.report.report import SCHEMA, Report
from transect.report.schema import FILE

PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    Any: {},
}


def make_schema() -> dict[str, Any]:
    """The JSON Schema, made anew from the records; needs their source."""
    records = records_of(Report)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA,
        "$ref": "#/$defs/Report",
        "$defs": {record.__name__: _object(record) for record in records},
    }


def make_docs() -> str:
    """The page ``docs/report-schema.md``; needs the records' source."""
    sections = [_section(record) for record in records_of(Report)]
    return "\n\n".join([INTRODUCTION.format(schema=SCHEMA, file=FILE).strip(), *sections]) + "\n"


INTRODUCTION = """
# report.json

`transect probe` writes what it found to `report.json`, schema `{schema}`. This page is made from the records in
`transect.report`; the same as a JSON Schema ships in the package as `transect/report/{file}`.

Read it back with `transect.report.load_report(path)`, which checks every value and gives a `Report` equal to the one
that was written. Numbers are never NaN or infinite: one that is not known is null, and only where the type below says so.
Fields marked *if it applies* are left out where they do not apply; all others are always there.
"""


def records_of(record: type) -> list[type]:
    """A record and all records inside it, each once, outermost first."""
    found: dict[type, None] = {}
    waiting = [record]
    while waiting:
        current = waiting.pop(0)
        found.setdefault(current)
        waiting += [inner for annotation in field_types(current).values() for inner in _inside(annotation) if inner not in found]
    return list(found)


def _inside(annotation: Any) -> list[type]:
    if dataclasses.is_dataclass(annotation):
        return [typing.cast("type", annotation)]
    if typing.get_origin(annotation) is Literal:
        return []
    return [inner for argument in typing.get_args(annotation) for inner in _inside(argument)]


def strings_under_fields(record: type) -> dict[str, str]:
    """The string under each field of a record; for a record that documents its fields under ``Args:``, the line there."""
    body = typing.cast("ast.ClassDef", ast.parse(textwrap.dedent(inspect.getsource(record))).body[0]).body
    docs = {name: text for name, text in _arguments(inspect.getdoc(record) or "").items() if name in field_types(record)}
    for field, below in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            docs[ast.unparse(field.target)] = " ".join(str(below.value.value).split())
    return docs


def _arguments(doc: str) -> dict[str, str]:
    """The entries under ``Args:`` of a docstring."""
    found: dict[str, str] = {}
    name, inside = "", False
    for line in doc.splitlines():
        stripped = line.strip()
        if line and not line.startswith(" "):
            inside = stripped == "Args:"
        elif inside and line.startswith("    ") and not line.startswith("     ") and ":" in stripped:
            name, _, text = stripped.partition(":")
            found[name] = text.strip()
        elif inside and stripped and name:
            found[name] += " " + stripped
    return found


def _object(record: type) -> dict[str, Any]:
    docs, hidden = strings_under_fields(record), absent_fields(record)
    properties = {}
    for name, annotation in field_types(record).items():
        written = annotation | None if name in nan_fields(record) else annotation
        properties[name] = {"description": docs[name], **_type_schema(written, without_null=name in hidden)}
    if record is Report:
        properties["schema"] = {"description": docs["schema"], "const": SCHEMA}
    summary = (inspect.getdoc(record) or "").split("\n\n", maxsplit=1)[0]
    required = [name for name in properties if name not in hidden]
    return {
        "description": " ".join(summary.split()),
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _type_schema(annotation: Any, *, without_null: bool = False) -> dict[str, Any]:
    kinds = [option for option in options(annotation) if not (without_null and option is type(None))]
    if len(kinds) > 1:
        return {"anyOf": [_type_schema(kind) for kind in kinds]}
    kind = kinds[0]
    origin = typing.get_origin(kind)
    if kind in PLAIN:
        return PLAIN[kind]
    if origin is Literal:
        return {"enum": list(typing.get_args(kind))}
    if origin is tuple:
        return {"type": "array", "items": _type_schema(typing.get_args(kind)[0])}
    if dataclasses.is_dataclass(kind):
        return {"$ref": f"#/$defs/{typing.cast('type', kind).__name__}"}
    return {"type": "object", "additionalProperties": _type_schema(typing.get_args(kind)[1])}


def _section(record: type) -> str:
    described = _object(record)
    rows = [
        f"| `{name}` | {_shown(field)}{'' if name in described['required'] else ', *if it applies*'} | {field['description']} |"
        for name, field in described["properties"].items()
    ]
    return "\n".join([f"## {record.__name__}", "", described["description"], "", "| field | type | what it is |", "|---|---|---|", *rows])


def _shown(schema: Mapping[str, Any]) -> str:
    """A schema as a few words for the table."""
    if "const" in schema:
        return f"`{schema['const']!r}`"
    if "anyOf" in schema:
        return " or ".join(_shown(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if schema.get("type") == "array":
        return f"list of {_shown(schema['items'])}"
    if schema.get("type") == "object":
        return f"object of {_shown(schema['additionalProperties'])}"
    return schema.get("type", "any JSON")


def main(docs: str) -> None:
    """Write the schema beside this file, and the documentation to the path given."""
    write_json(Path(__file__).with_name(FILE), make_schema())
    write_text(docs, make_docs())


if __name__ == "__main__":
    main(sys.argv[1])
