"""`transect certify` as a user meets it."""

import csv
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from transect.cli import app, main


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def benign(in_tmp):
    with Path("benign.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["note", "chat"])
        writer.writerows([f"Note {number}: the boat came in.", f"chat {number // 2}"] for number in range(140))
    return in_tmp / "benign.csv"


@pytest.fixture(scope="module")
def finished(tmp_path_factory, model_folder):
    folder = tmp_path_factory.mktemp("certified") / "elements"
    assert run("probe", "--model", model_folder, "--data", "elements", "--sites", "layers[1]", "--out", folder).exit_code == 0
    return folder


def test_certify_prints_and_writes_what_it_promises(finished, benign, model_folder):
    columns = ["--text", "note", "--group", "chat"]
    result = run("certify", finished, "--negatives", benign, *columns, "--fpr", "0.05", "--model", model_folder)
    assert result.exit_code == 0
    assert "70 independent groups of 140 rows" in result.output
    assert "With confidence 0.95" in result.output
    certificate = json.loads((finished / "certificate.json").read_text())
    assert certificate["fpr"]["n_groups"] == 70
    assert f"{certificate['threshold']:.6g}" in result.output
    rolling = ["--sequence", "rolling", "--size", "3"]
    sequences = run("certify", finished, "--negatives", benign, "--text", "note", "--fpr", "0.05", "--model", model_folder, *rolling)
    assert sequences.exit_code == 0
    assert "range of lengths" in sequences.output


def fails(monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["transect", *(str(argument) for argument in arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code, re.sub(r"\s+", " ", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (["--fpr", "0.01"], "needs at least 299 independent examples or groups"),
        (["--fpr", "1.5"], "strictly between 0 and 1"),
        ([], "got neither"),
        (["--fpr", "0.05", "--sequence", "maxx"], "did you mean 'max'"),
        (["--fpr", "0.05", "--size", "3"], "for --sequence rolling and top"),
        (["--recall", "0.9"], "needs positives"),
    ],
)
def test_a_refusal_says_what_is_needed_and_exits_with_2(finished, benign, monkeypatch, capsys, extra, says):
    code, said = fails(monkeypatch, capsys, "certify", finished, "--negatives", benign, "--text", "note", *extra)
    assert code == 2
    assert says in said
    assert "Traceback" not in said
