import dataclasses
import math

import pytest
import torch

from transect.errors import InputError, StoreError
from transect.linear import Readout
from transect.report import load_report, write_report


@pytest.fixture(scope="module")
def written(build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "cities"
    report = build.planted()
    readout = Readout(weight=torch.ones(1, 4), bias=torch.zeros(1), link="logistic", classes=(0, 1))
    return report, readout, folder, write_report(report, folder, readout=readout)


def test_everything_is_written_and_nothing_else(written):
    _, _, folder, paths = written
    expected = {"report.json", "report.html", "auroc_by_layer.png", "transfer.png", "scores.png", "probe.safetensors"}
    assert {path.name for path in paths.values()} == expected
    assert {path.name for path in folder.iterdir()} == expected


def test_what_is_read_back_is_the_report_with_its_files_named(written):
    report, readout, folder, paths = written
    back = load_report(folder)
    assert dataclasses.replace(back, files={}) == report
    assert set(back.files.values()) == {path.name for path in paths.values()} - {"report.json"}
    assert Readout.load(folder / back.files["probe"]).equals(readout)


def test_the_same_report_gives_the_same_bytes(written, tmp_path):
    report, readout, folder, _ = written
    write_report(report, tmp_path, readout=readout)
    for path in folder.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


def test_nothing_is_written_where_a_number_is_nan(tmp_path, build):
    report = build.planted()
    broken = dataclasses.replace(report, timing=dataclasses.replace(report.timing, total=math.nan))
    with pytest.raises(InputError, match=r"timing\.total is nan"):
        write_report(broken, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_nothing_is_written_where_a_value_is_of_the_wrong_kind(tmp_path, build):
    broken = dataclasses.replace(build.planted(), seed="0")
    with pytest.raises(StoreError, match="seed is '0', expected int"):
        write_report(broken, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path, build):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(StoreError, match=r"could not write .*file"):
        write_report(build.planted(), tmp_path / "file")
