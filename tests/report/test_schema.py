import copy
from pathlib import Path

import pytest

from transect.report import Report, report_schema
from transect.report.make_schema import main, make_docs, make_schema, records_of, strings_under_fields

REMAKE = "run: python -m transect.report.make_schema docs/report-schema.md"
KINDS = {"string": str, "boolean": bool, "integer": int, "number": (int, float), "null": type(None), "array": list, "object": dict}


def faults(schema, value, root, path="report"):
    """What is wrong with a value, by as much of JSON Schema as our own schema uses."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
    if "anyOf" in schema:
        every = [faults(one, value, root, path) for one in schema["anyOf"]]
        return [] if [] in every else min(every, key=len)
    if "const" in schema or "enum" in schema:
        return [] if value in schema.get("enum", [schema.get("const")]) else [path]
    if "type" not in schema:
        return []
    if not isinstance(value, KINDS[schema["type"]]) or (isinstance(value, bool) and schema["type"] in ("integer", "number")):
        return [path]
    found = [f"{path}.{name}" for name in schema.get("required", []) if name not in value]
    if isinstance(value, list):
        found += [fault for index, item in enumerate(value) for fault in faults(schema["items"], item, root, f"{path}[{index}]")]
    if isinstance(value, dict):
        for name, item in value.items():
            inner = schema.get("properties", {}).get(name, schema["additionalProperties"])
            found += [f"{path}.{name}"] if inner is False else faults(inner, item, root, f"{path}.{name}")
    return found


def test_the_shipped_schema_is_that_of_the_records():
    assert report_schema() == make_schema(), REMAKE


def test_the_documentation_is_that_of_the_records():
    path = Path(__file__).parents[2] / "docs" / "report-schema.md"
    assert path.read_text(encoding="utf-8") == make_docs(), REMAKE


def test_planted_reports_satisfy_the_schema(report):
    assert faults(report_schema(), report.to_json(), report_schema()) == []


@pytest.mark.parametrize(
    ("break_it", "path"),
    [
        (lambda value: value.pop("verdict"), "report.verdict"),
        (lambda value: value["verdict"]["transfers"].update(x="maybe"), "report.verdict.transfers.x"),
        (lambda value: value.update(more=1), "report.more"),
        (lambda value: value["test"]["auroc"].update(value="1"), "report.test.auroc.value"),
        (lambda value: value["transfer"][3].update(mcs=True), "report.transfer[3].mcs"),
        (lambda value: value.update(schema="transect.report/0"), "report.schema"),
    ],
)
def test_the_schema_finds_what_is_broken(build, break_it, path):
    value = copy.deepcopy(build.planted().to_json())
    break_it(value)
    assert faults(report_schema(), value, report_schema()) == [path]


def test_every_field_of_every_record_is_documented():
    for record in records_of(Report):
        assert strings_under_fields(record).keys() == report_schema()["$defs"][record.__name__]["properties"].keys(), record


def test_making_both_writes_both(tmp_path, monkeypatch):
    import transect.report.make_schema as module

    monkeypatch.setattr(module, "__file__", str(tmp_path / "make_schema.py"))
    main(str(tmp_path / "docs.md"))
    assert (tmp_path / "report.schema.json").is_file()
    assert (tmp_path / "docs.md").read_text(encoding="utf-8").startswith("# report.json")
