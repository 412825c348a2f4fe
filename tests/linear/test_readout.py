import dataclasses

import pytest
import torch
from safetensors.torch import save_file

from transect.errors import InputError, MismatchError, StoreError
from transect.linear import Direction, Origin, Readout


def a_readout(**changes):
    origin = Origin(
        site="layers[3]", tokens="last", model="abc", fitter="Logistic", settings={"C": 1.0}, data={"n": 7}, scores={"auroc": 0.9}
    )
    fields = {
        "weight": torch.tensor([[1.0, -2.0, 0.5]], dtype=torch.float64),
        "bias": torch.tensor([0.25], dtype=torch.float64),
        "link": "logistic",
        "classes": (False, True),
        "origin": origin,
    }
    return Readout(**(fields | changes))


def test_scores_equal_the_definition_in_float64():
    readout = a_readout()
    x = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    assert torch.equal(readout.scores(x), torch.tensor([1 - 4 + 1.5 + 0.25, 0.25], dtype=torch.float64))
    assert torch.equal(readout.scores(x[0]), readout.scores(x)[0])


def test_low_precision_activations_are_scored_in_float32_at_least():
    readout = a_readout(weight=torch.ones(1, 3), bias=torch.zeros(1))
    assert readout.scores(torch.ones(2, 3, dtype=torch.bfloat16)).dtype == torch.float32


def test_probabilities_sum_to_one_and_follow_the_link():
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    binary = a_readout()
    assert torch.allclose(binary.probabilities(x)[:, 1], torch.sigmoid(binary.scores(x)), atol=1e-15, rtol=0)
    three = a_readout(
        weight=torch.eye(3, dtype=torch.float64), bias=torch.zeros(3, dtype=torch.float64), link="softmax", classes=("a", "b", "c")
    )
    assert torch.allclose(three.probabilities(x).sum(-1), torch.ones(5, dtype=torch.float64), atol=1e-15, rtol=0)
    assert three.predict(torch.eye(3)) == ["a", "b", "c"]


def test_no_probability_is_claimed_for_scores_that_are_not_log_odds():
    with pytest.raises(InputError, match="not log-odds"):
        a_readout(link="identity").probabilities(torch.ones(1, 3))


def test_save_and_load_give_back_an_equal_object(tmp_path):
    readout = a_readout()
    readout.save(tmp_path / "probe.safetensors")
    assert Readout.load(tmp_path / "probe.safetensors").equals(readout)
    assert [path.name for path in tmp_path.iterdir()] == ["probe.safetensors"]


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        a_readout().link = "identity"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": torch.ones(3)}, r"weight \[k, d\]"),
        ({"bias": torch.zeros(2)}, r"bias \[k\]"),
        ({"classes": (1, 2, 3)}, "wants 3 rows"),
        ({"classes": None}, "needs classes"),
        ({"link": "probit"}, "'probit'"),
        ({"weight": torch.tensor([[1.0, float("nan"), 0.0]])}, "finite"),
    ],
)
def test_fields_that_do_not_fit_together_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        a_readout(**changes)


def test_another_width_is_refused():
    with pytest.raises(MismatchError, match="width 3, got activations of width 4"):
        a_readout().scores(torch.ones(2, 4))


def test_another_model_is_refused_unless_forced():
    origin = a_readout().origin
    origin.check_model("abc")
    origin.check_model("other", force=True)
    with pytest.raises(MismatchError, match="other"):
        origin.check_model("other")


def test_damaged_foreign_and_missing_files_are_named(tmp_path):
    a_readout().save(tmp_path / "good")
    (tmp_path / "cut").write_bytes((tmp_path / "good").read_bytes()[:-9])
    save_file({"x": torch.ones(1)}, tmp_path / "foreign")
    Direction(vector=torch.ones(2)).save(tmp_path / "direction")
    cases = [("cut", "not a readable"), ("foreign", "did not write it"), ("direction", "holds a Direction"), ("none", "no file")]
    for name, message in cases:
        with pytest.raises(StoreError, match=message):
            Readout.load(tmp_path / name)


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "probe.safetensors"
    a_readout().save(path)
    before = path.read_bytes()

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transect.linear.files.save_file", full)
    with pytest.raises(StoreError, match="No space left"):
        a_readout(link="identity").save(path)
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["probe.safetensors"]


def test_a_direction_has_length_one_and_comes_back_equal(tmp_path):
    direction = Direction.of(a_readout())
    assert float(torch.linalg.vector_norm(direction.vector)) == pytest.approx(1, abs=1e-15)
    direction.save(tmp_path / "d")
    again = Direction.load(tmp_path / "d")
    assert torch.equal(again.vector, direction.vector)
    assert again.origin == direction.origin


@pytest.mark.parametrize("vector", [torch.zeros(3), torch.ones(2, 2), torch.tensor([float("inf"), 0.0])])
def test_a_vector_without_a_direction_is_refused(vector):
    with pytest.raises(InputError):
        Direction(vector=vector)
