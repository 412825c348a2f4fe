"""`transect mixers compare` as a user runs it."""

import json

from typer.testing import CliRunner

from transect.cli import app

RUN = [
    "mixers",
    "compare",
    "--task",
    "recall",
    "--layers",
    "gla,deltanet:allow_neg_eigval=true",
    "--vocab",
    "16",
    "--pairs",
    "2",
    "--length",
    "8",
]
QUICK = ["--hidden-size", "16", "--depth", "1", "--steps", "4", "--batch", "4", "--every", "2"]


def test_a_table_and_files(tmp_path):
    out = tmp_path / "run"
    result = CliRunner().invoke(app, [*RUN, *QUICK, "--out", str(out)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    for word in ("deltanet:allow_neg_eigval=true", "pairs 4 (beyond)", "chance", "0.500", "compare.png"):
        assert word in result.output
    assert {"run.json", "table.csv", "compare.png", "compare.json", "runs"} == {path.name for path in out.iterdir()}
    again = CliRunner().invoke(app, [*RUN, *QUICK, "--out", str(out)])
    assert "a finished run" in str(again.exception)
    assert CliRunner().invoke(app, [*RUN, *QUICK, "--out", str(out), "--overwrite"]).exit_code == 0


def test_the_power_of_gaps_reaches_the_task(tmp_path):
    result = CliRunner().invoke(app, [*RUN, *QUICK, "--power", "0.01", "--out", str(tmp_path / "run")], catch_exceptions=False)
    assert result.exit_code == 0
    assert json.loads((tmp_path / "run" / "compare.json").read_text())["settings"]["of"]["power"] == 0.01


def test_mistakes_are_said():
    for more, says in (
        (["--lr", "fast"], "--lr takes numbers"),
        (["--resume"], "--out"),
        (["--heads", "3"], "divide hidden_size"),
        (["--power", "0"], "a power above 0 and at most 1"),
        (["--task", "capacity", "--power", "0.1"], "the task capacity has no"),
    ):
        assert says in str(CliRunner().invoke(app, [*RUN, *QUICK, *more]).exception)


def test_theory_prints_a_row_for_each_layer():
    result = CliRunner().invoke(app, ["mixers", "theory", "--layers", "gla,attention"], catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0
    for word in ("interaction rank", "step norm", "lowest eigenvalue", "recovery error"):
        assert word in result.output
    assert "36, 36" in result.output  # all that 8 tokens allow
    assert "29, 29" in result.output  # weights that sum to one in seven rows have one choice less in each


def test_theory_shows_what_a_hidden_layer_adds():
    result = CliRunner().invoke(app, ["mixers", "theory", "--expressiveness"], catch_exceptions=False)
    assert result.exit_code == 0
    assert "with a hidden layer" in result.output
    assert "--layers" in str(CliRunner().invoke(app, ["mixers", "theory"]).exception)
