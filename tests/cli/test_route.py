"""`transect route` on two tiny models whose probes know when each of them is right."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from transect.capture import capture
from transect.cli import app, main
from transect.data import read_table
from transect.errors import InputError
from transect.linear import Origin
from transect.models import load
from transect.probes import Logistic
from transect.study import Settings, probe
from transect.study.route import unseen_queries
from transect.testing.tiny import tiny


def run(*arguments):
    return CliRunner().invoke(app, ["route", *(str(argument) for argument in arguments)], catch_exceptions=False)


def fails(monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["transect", "route", *(str(argument) for argument in arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code, re.sub(r"\s+", " ", capsys.readouterr().err)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """Two models on disk, a table of queries, and a probe for each model fitted on other texts of the same two kinds."""
    folder = tmp_path_factory.mktemp("pool")
    texts = [f"Is {number} larger than {number + 1}?" if number % 2 else f"The city of Paris {number}" for number in range(80)]
    easy = np.arange(80) % 2 == 0
    right = {"small": easy, "large": np.arange(80) % 10 != 3}
    with (folder / "queries.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "small_right", "large_right", "digits"])
        writer.writerows([text, int(a), int(b), len(text) % 7] for text, a, b in zip(texts, right["small"], right["large"], strict=True))
    for name, family in (("small", "llama"), ("large", "gpt2")):
        made = tiny(family)
        tokenizer = made.tokenizer
        assert tokenizer is not None
        module: Any = made.module
        module.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
        model = load(folder / name)
        acts = capture(model, [f"{text} 7" for text in texts], sites="layers[1]", progress=False)
        readout = Logistic(C=10.0).fit(acts["layers[1]"], right[name].astype(int)).readout_
        origin = Origin(site="layers[1]", tokens="last", model=model.fingerprint, model_name=name)
        readout.with_origin(origin).save(folder / f"{name}.safetensors")
    return folder


def _options(pool, probes=("small", "large")):
    return [
        "--probes",
        ",".join(str(pool / f"{name}.safetensors") for name in probes),
        "--costs",
        "1,12",
        "--data",
        pool / "queries.csv",
        "--text",
        "question",
        "--models",
        f"{pool / 'small'},{pool / 'large'}",
    ]


def test_a_measured_run_prints_the_table_and_writes_its_files(pool, tmp_path):
    result = run(*_options(pool), "--success", "small_right,large_right", "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert "Chosen on other rows" in result.output
    found = json.loads((tmp_path / "out" / "route.json").read_text())
    assert found["models"] == ["small", "large"]
    assert found["queries"] == 80
    assert [point["name"] for point in found["routing"]["singles"]] == ["small", "large"]
    assert found["routing"]["singles"][0]["accuracy"]["value"] == 0.5
    assert found["routing"]["singles"][1]["cost"]["value"] == 12
    assert {"low", "high"} <= set(found["routing"]["saving"])
    assert len(found["probes"]) == 2
    with (tmp_path / "out" / "route.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 80
    assert {row["model"] for row in rows} <= {"small", "large"}
    assert (tmp_path / "out" / "route.png").read_bytes().startswith(b"\x89PNG")


def test_without_success_every_query_gets_its_model(pool, tmp_path):
    result = run(*_options(pool), "--rule", "adequate", "--tradeoff", "0.7", "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert "p(small)" in result.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["route.csv", "route.json"]
    with (tmp_path / "out" / "route.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        small, large = float(row["p(small)"]), float(row["p(large)"])
        cheapest = "small" if small >= 0.7 or (large < 0.7 and small >= large) else "large"
        assert row["model"] == cheapest or min(abs(small - 0.7), abs(large - 0.7)) < 1e-3
    assert json.loads((tmp_path / "out" / "route.json").read_text())["routing"] is None


def test_a_probe_of_the_other_model_is_refused(pool, monkeypatch, capsys):
    status, said = fails(monkeypatch, capsys, *_options(pool, probes=("large", "large")))
    assert status == 2
    assert "fitted on model large" in said


def test_wrong_columns_and_counts_are_named(pool, monkeypatch, capsys):
    status, said = fails(monkeypatch, capsys, *_options(pool), "--success", "small_rihgt,large_right")
    assert status == 2
    assert "did you mean 'small_right'" in said
    status, said = fails(monkeypatch, capsys, *_options(pool), "--success", "digits,large_right")
    assert "must hold 0 and 1" in said
    status, said = fails(monkeypatch, capsys, *_options(pool), "--success", "small_right")
    assert "got 1 success columns" in said
    options = _options(pool)
    options[3] = "1"
    assert "as many --probes and --costs" in fails(monkeypatch, capsys, *options)[1]
    options[3] = "1,dear"
    assert "takes numbers" in fails(monkeypatch, capsys, *options)[1]
    assert "--rule" in fails(monkeypatch, capsys, *_options(pool), "--rule", "cheap")[1]


def test_a_probe_without_probabilities_is_refused(pool, tmp_path, monkeypatch, capsys):
    from dataclasses import replace

    from transect.linear import Readout

    plain = replace(Readout.load(pool / "small.safetensors"), link="identity")
    plain.save(tmp_path / "plain.safetensors")
    options = _options(pool)
    options[1] = f"{tmp_path / 'plain.safetensors'},{pool / 'large.safetensors'}"
    assert "probabilities of success" in fails(monkeypatch, capsys, *options)[1]
    assert Path(tmp_path / "plain.safetensors").exists()


def test_queries_that_a_probe_was_fitted_on_measure_nothing(tmp_path):
    words = ["river", "stone", "lamp", "tiger", "cloud", "paper"]
    generator = np.random.default_rng(0)
    rows = [{"text": f"{index} {generator.choice(words)}", "label": bool(index % 2)} for index in range(120)]
    model, settings = tiny("llama"), Settings(permutations=20, refits=20, directions=20, resamples=100, compare=False)
    found = probe(model, read_table(rows, name="fitted"), out=tmp_path / "run", settings=settings)
    queries = read_table([{"text": row["text"]} for row in rows[:30]] + [{"text": f"new {index}"} for index in range(50)])
    file = tmp_path / "run" / "probe.safetensors"
    kept, notes = unseen_queries(queries, {"small": (str(file), found.readout)})
    assert kept.texts == queries.texts[30:]
    assert notes[0].startswith("30 queries share")
    alone = tmp_path / "alone.safetensors"
    found.readout.save(alone)
    kept, notes = unseen_queries(queries, {"small": (str(alone), found.readout)})
    assert len(kept) == 80
    assert "could not be checked" in notes[0]
    with pytest.raises(InputError, match="all 30 queries"):
        unseen_queries(queries.take(range(30)), {"small": (str(file), found.readout)})
