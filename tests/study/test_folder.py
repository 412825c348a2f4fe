import pytest

from transect.errors import InputError, StoreError
from transect.study.folder import claim_folder

PLAN = {"model": "abc", "settings": {"seed": 0}}


def test_a_new_and_an_empty_folder_are_taken(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("new/deep", "empty"):
        folder = claim_folder(tmp_path / name, PLAN, resume=False, overwrite=False)
        assert (folder.path / "run.json").is_file()


def test_a_run_is_never_written_over_by_accident(tmp_path):
    claim_folder(tmp_path / "run", PLAN, resume=False, overwrite=False)
    with pytest.raises(StoreError, match="a run that was stopped"):
        claim_folder(tmp_path / "run", PLAN, resume=False, overwrite=False)
    (tmp_path / "run" / "report.json").write_text("{}")
    with pytest.raises(StoreError, match="a finished run"):
        claim_folder(tmp_path / "run", PLAN, resume=False, overwrite=False)


def test_resume_keeps_and_overwrite_removes(tmp_path):
    folder = claim_folder(tmp_path / "run", PLAN, resume=False, overwrite=False)
    kept = folder.activations("cities") / "shard"
    kept.parent.mkdir(parents=True)
    kept.write_text("x")
    claim_folder(tmp_path / "run", PLAN, resume=True, overwrite=False)
    assert kept.read_text() == "x"
    claim_folder(tmp_path / "run", PLAN, resume=False, overwrite=True)
    assert not kept.exists()


def test_a_run_with_another_plan_is_not_resumed(tmp_path):
    claim_folder(tmp_path / "run", PLAN, resume=False, overwrite=False)
    with pytest.raises(StoreError, match="model was 'abc', now 'other'"):
        claim_folder(tmp_path / "run", {**PLAN, "model": "other"}, resume=True, overwrite=False)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_something_else_is_left_alone_even_with_overwrite(tmp_path, overwrite):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match="holds no run of transect"):
        claim_folder(tmp_path, PLAN, resume=False, overwrite=overwrite)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_both_at_once_and_a_file_are_refused(tmp_path):
    with pytest.raises(InputError, match="got both"):
        claim_folder(tmp_path / "x", PLAN, resume=True, overwrite=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file"):
        claim_folder(tmp_path / "file", PLAN, resume=False, overwrite=False)
