"""The command line as a user meets it: whole runs on a tiny model, and every way to get it wrong."""

import json
import re
import shutil

import pytest
from typer.testing import CliRunner

from transect.cli import app, main

PROBE = ["probe", "--data", "train.csv", "--text", "statement", "--label", "is_true", "--group", "city", "--test", "ood.parquet"]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def fails(monkeypatch, capsys, *arguments):
    """Run as the installed command does; the exit status and what was said on stderr."""
    monkeypatch.setattr("sys.argv", ["transect", *(str(argument) for argument in arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code, re.sub(r"\s+", " ", capsys.readouterr().err)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, model_folder):
    """A finished run, for the commands that read one."""
    folder = tmp_path_factory.mktemp("run") / "elements"
    result = run(
        "probe", "--model", model_folder, "--data", "elements", "--test", "neg_elements", "--controls", "untrained", "--out", folder
    )
    assert result.exit_code == 0
    return folder


def test_probe_writes_a_report_that_holds_what_was_promised(finished):
    assert {"report.json", "report.html", "probe.safetensors"} <= {path.name for path in finished.iterdir()}
    assert len(list(finished.glob("*.png"))) >= 3
    report = json.loads((finished / "report.json").read_text())
    assert report["schema"] == "transect.report/1"
    assert report["model"]["fingerprint"]
    assert {"site", "probe", "regularization"} <= set(report["selected"])
    assert {"value", "low", "high"} <= set(report["test"]["auroc"])
    names = {"bag_of_words", "length", "shuffled_labels", "random_direction", "untrained"}
    assert {name for name, baseline in report["baselines"].items() if "value" in baseline["auroc"]} == names
    assert {"train", "test", "site", "auroc", "cosine", "mcs"} <= set(report["transfer"][0])
    assert set(report["verdict"]["transfers"]) == {"neg_elements"}
    assert report["verdict"]["transfers"]["neg_elements"] in {"yes", "no", "inverted", "unclear"}
    assert report["leakage"]["findings"]
    assert report["timing"]["total"] > 0


def test_a_random_model_is_not_said_to_know_the_elements(finished):
    verdict = json.loads((finished / "report.json").read_text())["verdict"]
    assert verdict["beyond_surface"] is not True


def test_probe_on_files_with_named_columns(tables, model_folder):
    result = run(*PROBE, "--model", model_folder)
    assert result.exit_code == 0
    report = json.loads((tables / "runs" / "train" / "report.json").read_text())
    assert report["data"]["tests"][0]["name"] == "ood"
    assert "every text is a group of its own" in " ".join(report["data"]["tests"][0]["notes"])


def test_score_gives_one_line_per_text_and_per_token(finished, model_folder, in_tmp):
    probe = finished / "probe.safetensors"
    texts = ["The chemical symbol of iron is Fe.", "No."]
    result = run("score", "--probe", probe, "--model", model_folder, "--out", "scores.csv", *texts)
    assert result.exit_code == 0
    assert (in_tmp / "scores.csv").read_text().count("\n") == 3
    per_token = run("score", "--probe", probe, "--model", model_folder, "--tokens", "--out", "tokens.csv", texts[1])
    assert per_token.exit_code == 0
    lines = (in_tmp / "tokens.csv").read_text().splitlines()[1:]
    alone = (in_tmp / "scores.csv").read_text().splitlines()[2].split(",")
    assert lines[-1].split(",")[2] == alone[2]  # the probe reads the last token, so its score is the text's


def test_inspect_says_what_a_file_and_a_run_are(finished):
    said = run("inspect", finished / "probe.safetensors").output
    assert all(word in said for word in ("Readout", "layers[", "last", "Logistic", "auroc"))
    assert "elements" in run("inspect", finished).output


def test_capture_stores_verifies_and_opens(model_folder, in_tmp):
    result = run("capture", "--model", model_folder, "--data", "elements", "--sites", "layers[1]", "--store", "acts", "--verify", "3")
    assert result.exit_code == 0
    assert "largest_difference" in result.output
    assert "layers[1]" in run("inspect", "acts").output


def test_a_run_is_not_replaced_unless_asked(finished, model_folder, monkeypatch, capsys):
    again = ["probe", "--model", model_folder, "--data", "elements", "--test", "neg_elements", "--out", finished]
    code, said = fails(monkeypatch, capsys, *again)
    assert code == 2
    assert "already holds a finished run" in said
    assert "--overwrite" in said


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--label": "is_ture"}, "did you mean 'is_true'"),
        ({"--data": "trian.csv"}, "train.csv"),
        ({"--sites": "layer[1]"}, "layer[1]"),
        ({"--sites": "layers[7]"}, "layers[7]"),
        ({"--tokens": "lsat"}, "cannot read token rule 'lsat'"),
        ({"--model": "no/such-model"}, "no/such-model"),
        ({"--controls": "untraned"}, "did you mean 'untrained'"),
        ({"--method": "Logistik"}, "did you mean 'Logistic'"),
        ({"--folds": "200"}, "200 folds"),
        ({"--chat": None}, "chat template"),
        ({"--device": "tpu"}, "tpu"),
        ({"--dtype": "float12"}, "float12"),
    ],
)
def test_mistakes_end_with_one_sentence_that_repeats_them(tables, model_folder, monkeypatch, capsys, changes, message):
    options = dict(zip(PROBE[1::2], PROBE[2::2], strict=True)) | {"--model": str(model_folder)} | changes
    flat = [word for pair in options.items() for word in pair if word is not None]
    code, said = fails(monkeypatch, capsys, "probe", *flat)
    assert code == 2
    assert message in said
    assert "Traceback" not in said
    assert not (tables / "runs" / "train" / "report.json").exists()


def test_a_probe_is_not_used_on_another_model_unless_forced(finished, model_folder, tmp_path, monkeypatch, capsys):
    from transect.testing import tiny

    other = tmp_path / "other"
    model = tiny("llama", seed=1)
    model.module.save_pretrained(other)
    model.tokenizer.save_pretrained(other)
    code, said = fails(monkeypatch, capsys, "score", "--probe", finished / "probe.safetensors", "--model", other, "Yes.")
    assert code == 2
    assert "fitted on model" in said
    assert run("score", "--probe", finished / "probe.safetensors", "--model", other, "--force", "Yes.").exit_code == 0


def test_a_probe_of_plain_texts_is_not_used_on_chats(finished, model_folder, monkeypatch, capsys):
    code, said = fails(monkeypatch, capsys, "score", "--probe", finished / "probe.safetensors", "--model", model_folder, "--chat", "Yes.")
    assert code == 2
    assert "fitted to plain texts" in said


def test_a_stopped_run_is_resumed_and_ends_alike(finished, model_folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    (copy / "report.json").unlink()
    again = ["probe", "--model", model_folder, "--data", "elements", "--test", "neg_elements", "--controls", "untrained", "--out", copy]
    assert run(*again, "--resume").exit_code == 0
    first, second = (json.loads((folder / "report.json").read_text()) for folder in (finished, copy))
    for key in ("selected", "test", "by_site", "baselines", "transfer", "verdict"):
        assert first[key] == second[key]


def test_joint_training_says_what_changed(model_folder, in_tmp):
    result = run("probe", "--model", model_folder, "--data", "elements", "--data", "neg_elements", "--out", "joint")
    assert result.exit_code == 0
    report = json.loads((in_tmp / "joint" / "report.json").read_text())
    assert report["data"]["train"]["name"] == "elements+neg_elements"
    assert sum("alone" in note for note in report["notes"]) == 2
    assert {(pair["train"], pair["test"]) for pair in report["transfer"]} >= {
        ("elements", "neg_elements"),
        ("elements+neg_elements", "elements"),
    }


def test_help_names_every_command():
    said = run("--help").output
    assert all(command in said for command in ("probe", "score", "inspect", "capture", "stress", "certify", "route"))


def test_stress_adds_its_page_to_the_run_and_finds_the_model_by_itself(finished, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    result = run("stress", copy, "--no-prompts", "--permutations", "20")
    assert result.exit_code == 0
    assert "style" in result.stdout
    assert "not tried: instruction" in re.sub(r"\s+", " ", result.stdout)
    assert {"stress.json", "stress.html", "stress.png"} <= {path.name for path in copy.iterdir()}
    assert json.loads((copy / "report.json").read_text())["stress"] == "stress.html"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "could not read nowhere"),
        (["{run}", "--negation", "maybe"], "'maybe'"),
        (["{run}", "--model", "no/such-model"], "no/such-model"),
    ],
)
def test_mistakes_of_a_stress_test_are_one_sentence(finished, in_tmp, monkeypatch, capsys, arguments, message):
    code, said = fails(monkeypatch, capsys, "stress", *[word.replace("{run}", str(finished)) for word in arguments])
    assert code == 2
    assert message in said
