"""Comparisons: a layer that can learn does, one that cannot says chance, and a stopped comparison goes on as if it had not been."""

import dataclasses
import json
import sys

import pytest
import torch

from transect import mixers
from transect.errors import InputError, StoreError
from transect.mixers import tasks
from transect.mixers.layers import SequenceLayer
from transect.mixers.models.kinds import layer_kinds
from transect.report.mixers_across_image import mixers_across_image
from transect.study.compare_mixers import CompareSettings, compare_mixers, layer_spec, make_task, write_comparison

QUICK = CompareSettings(hidden_size=16, depth=1, steps=6, batch_size=4, every=2, test_size=16)


def test_a_layer_that_can_count_parity_does_and_one_that_cannot_says_chance():
    settings = CompareSettings(hidden_size=32, depth=1, steps=400, batch_size=64, learning_rates=(1e-2,), every=50, test_size=128)
    task = tasks.Parity(length=16)
    found = compare_mixers(task, ["deltanet:allow_neg_eigval=true", "gla"], settings=settings, shown=False)
    can, cannot = found.layers
    assert (can.accuracy(16) or 0) > 0.95
    assert can.runs[0].steps < 400
    assert 0 < (cannot.accuracy(64) or 0) < 0.65
    assert found.table()[1][-1][-1] == "0.500"


def test_a_stopped_comparison_goes_on_as_if_it_had_not_been(tmp_path, monkeypatch):
    task = tasks.Recall(vocab=16, pairs=2, length=8)
    layers = ["gdn", "attention"]
    whole = compare_mixers(task, layers, settings=QUICK, shown=False)
    batches, original = [], tasks.Recall.batch

    def stopping(self, generator, size, *, test=None):
        batches.append(test)
        if len(batches) == 11:
            raise KeyboardInterrupt
        return original(self, generator, size, test=test)

    monkeypatch.setattr(tasks.Recall, "batch", stopping)
    with pytest.raises(KeyboardInterrupt):
        compare_mixers(task, layers, settings=QUICK, out=tmp_path / "run", shown=False)
    monkeypatch.undo()
    with pytest.raises(StoreError, match="a run that was stopped"):
        compare_mixers(task, layers, settings=QUICK, out=tmp_path / "run", shown=False)
    with pytest.raises(StoreError):
        compare_mixers(task, ["gdn"], settings=QUICK, out=tmp_path / "run", resume=True, shown=False)
    again = compare_mixers(task, layers, settings=QUICK, out=tmp_path / "run", resume=True, shown=False)
    for one, other in zip(whole.layers, again.layers, strict=True):
        assert one.runs[0].accuracy == other.runs[0].accuracy
        assert one.runs[0].loss == other.runs[0].loss
        assert one.runs[0].curve == other.runs[0].curve
    write_comparison(again, tmp_path / "run")
    with pytest.raises(StoreError, match="a finished run"):
        compare_mixers(task, layers, settings=QUICK, out=tmp_path / "run", shown=False)


def test_all_layers_see_the_same_batches_and_randomness_is_left_alone(monkeypatch):
    seen, original, before = [], tasks.Recall.batch, torch.get_rng_state()

    def listening(self, generator, size, *, test=None):
        batch = original(self, generator, size, test=test)
        seen.append(batch.ids)
        return batch

    monkeypatch.setattr(tasks.Recall, "batch", listening)
    compare_mixers(tasks.Recall(vocab=16, pairs=2, length=8), ["gdn", "gla"], settings=QUICK, shown=False)
    half = len(seen) // 2
    assert all(torch.equal(one, other) for one, other in zip(seen[:half], seen[half:], strict=True))
    assert torch.equal(before, torch.get_rng_state())


def test_the_best_learning_rate_is_tested_and_all_are_told():
    settings = CompareSettings(
        hidden_size=16, depth=1, steps=60, batch_size=32, learning_rates=(1e-7, 1e-2), every=30, test_size=64, seeds=2
    )
    found = compare_mixers(tasks.ModularSum(length=4), ["deltanet"], settings=settings, shown=False).layers[0]
    assert set(found.tried) == {1e-7, 1e-2}
    assert {run.learning_rate for run in found.runs} == {1e-2}
    assert [run.seed for run in found.runs] == [0, 1]
    spread, mean = found.spread(4), found.accuracy(4)
    assert spread is not None
    assert mean is not None
    assert spread[0] <= mean <= spread[1]


class Bursting(SequenceLayer):
    """Finite for so many calls, then not."""

    def __init__(self, *, hidden_size: int, layer_idx: int, after: int = 3, longest: int = 10**9) -> None:
        super().__init__(hidden_size=hidden_size, layer_idx=layer_idx)
        self.inner = mixers.GLA(hidden_size=hidden_size, num_heads=1, layer_idx=layer_idx)
        self.after, self.longest, self.steps = after, longest, 0

    def mix(self, x, *, past, packing, form):
        mixed = self.inner.mix(x, past=past, packing=packing, form=form)
        self.steps += self.training
        bad = self.steps > self.after or x.shape[1] > self.longest
        return dataclasses.replace(mixed, y=mixed.y * (float("inf") if bad else 1.0))


def known(monkeypatch, name, kind):
    kinds = {**layer_kinds(), name: kind}
    monkeypatch.setattr("transect.study.compare_mixers.settings.layer_kinds", lambda: kinds)
    for place in ("stack", "config"):
        monkeypatch.setattr(f"transect.mixers.models.{place}.layer_kinds", lambda: kinds)


@pytest.fixture
def bursting(monkeypatch):
    known(monkeypatch, "bursting", Bursting)


@pytest.fixture
def latest(monkeypatch):
    known(monkeypatch, "latest", Latest)


def test_a_training_that_diverges_is_said_and_not_scored(bursting, tmp_path):
    settings = dataclasses.replace(QUICK, seeds=2)
    task = tasks.Recall(vocab=16, pairs=2, length=8)
    found = compare_mixers(task, ["bursting", "gla"], settings=settings, out=tmp_path / "run", shown=False)
    lost, fine = found.layers
    assert [run.diverged for run in lost.runs] == [4, 4]
    assert [dict(run.accuracy) for run in lost.runs] == [{}, {}]
    assert lost.accuracy(2) is lost.spread(2) is lost.perplexity(2) is None
    assert fine.status == "all steps"
    names, rows = found.table()
    assert rows[0][names.index("status")] == "diverged at step 4 (2 of 2 seeds)"
    assert rows[0][names.index("pairs 2")] == "diverged"
    assert any("bursting diverged at step 4" in note for note in found.notes())
    again = compare_mixers(task, ["bursting", "gla"], settings=settings, out=tmp_path / "run", resume=True, shown=False)
    assert again.layers[0] == lost
    written = json.loads(write_comparison(again, tmp_path / "run")[-1].read_text())
    assert written["layers"][0]["status"] == "diverged at step 4 (2 of 2 seeds)"


def test_answers_that_are_not_finite_are_wrong_and_said(bursting):
    found = compare_mixers(tasks.Recall(vocab=16, pairs=2, length=8), ["bursting:after=99;longest=8"], settings=QUICK, shown=False)
    names, rows = found.table()
    assert rows[0][names.index("status")] == "all steps"
    assert rows[0][names.index("pairs 4 (beyond)")] == "0.000, not finite"
    assert "not finite" not in rows[0][names.index("pairs 2")]
    assert found.layers[0].runs[0].loss[4] is None
    assert any("at pairs 4 were not finite" in note for note in found.notes())


def test_a_learning_rate_that_diverges_is_not_chosen(monkeypatch):
    trained = sys.modules["transect.study.compare_mixers.compare"].train

    def diverging(spec, task, settings, *, seed, learning_rate, kept, advance):
        run = trained(spec, task, settings, seed=seed, learning_rate=learning_rate, kept=kept, advance=advance)
        lost = learning_rate == 0.5 and seed == 1
        best = dataclasses.replace(run, validation=1.0 if learning_rate == 0.5 else 0.1)
        return dataclasses.replace(best, diverged=2, accuracy={}, loss={}) if lost else best

    monkeypatch.setattr("transect.study.compare_mixers.compare.train", diverging)
    settings = dataclasses.replace(QUICK, learning_rates=(0.5, 1e-3), seeds=2)
    found = compare_mixers(tasks.Recall(vocab=16, pairs=2, length=8), ["gla"], settings=settings, shown=False)
    assert found.layers[0].runs[0].learning_rate == 1e-3
    assert any("the best of 0.5, 0.001 on validation sequences" in note for note in found.notes())


def test_state_and_parameters_are_counted():
    found = compare_mixers(tasks.Recall(vocab=16, pairs=2, length=8), ["deltanet:conv_size=null", "attention"], settings=QUICK, shown=False)
    assert found.layers[0].state == 2 * 8 * 8  # one block of two heads of width 8
    assert found.layers[1].state == 2 * 4 * 16  # keys and values of the first test's four tokens


def test_what_is_written(tmp_path):
    found = compare_mixers(tasks.Needle(length=32), ["gdn", "retnet"], settings=QUICK, shown=False)
    paths = write_comparison(found, tmp_path)
    assert [path.name for path in paths] == ["table.csv", "compare.png", "depths.png", "compare.json"]
    assert paths[0].read_text().count("\n") == 4
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    assert paths[2].read_bytes().startswith(b"\x89PNG")
    held = json.loads(paths[-1].read_text())
    assert [layer["name"] for layer in held["layers"]] == ["gdn", "retnet"]
    assert held["settings"]["settings"]["steps"] == 6
    assert held["across"]["name"] == "depth"
    assert {test: len(shares) for test, shares in held["layers"][0]["across"].items()} == dict.fromkeys(
        ["32", "64", "128", "256", "512"], 5
    )


class Latest(SequenceLayer):
    """Knows the last eight tokens alone, in their order, and nothing else."""

    def __init__(self, *, hidden_size: int, layer_idx: int) -> None:
        super().__init__(hidden_size=hidden_size, layer_idx=layer_idx)
        self.inner = mixers.GLA(hidden_size=hidden_size, num_heads=1, layer_idx=layer_idx)
        self.taps = torch.nn.ModuleList([torch.nn.Linear(hidden_size, hidden_size, bias=False) for _ in range(8)])

    def mix(self, x, *, past, packing, form):
        mixed = self.inner.mix(x, past=past, packing=packing, form=form)
        late = [tap(torch.nn.functional.pad(x, (0, 0, lag, 0))[:, : x.shape[1]]) for lag, tap in enumerate(self.taps)]
        return dataclasses.replace(mixed, y=torch.stack(late).sum(0))


def test_a_layer_of_short_memory_finds_deep_needles_alone(latest, tmp_path):
    settings = CompareSettings(hidden_size=32, depth=1, steps=120, batch_size=32, learning_rates=(1e-2,), every=120, test_size=96, seeds=2)
    task = tasks.Needle(vocab=13, length=20)
    found = compare_mixers(task, ["latest"], settings=settings, out=tmp_path / "run", shown=False)
    layer = found.layers[0]
    for test in task.tests:
        shares = layer.accuracies_across(test)
        assert shares is not None
        assert shares[-1] > 0.95  # just before the question
        assert max(shares[:3]) < 0.25 + 5 * (0.25 * 0.75 / 192) ** 0.5  # chance is 1/4, and none of them is within eight tokens
    assert layer.accuracies_across(20) == tuple(sum(pair) / 2 for pair in zip(*(run.across[20] for run in layer.runs), strict=True))
    again = compare_mixers(task, ["latest"], settings=settings, out=tmp_path / "run", resume=True, shown=False)
    assert again.layers == found.layers


def test_shares_by_depth_are_those_of_the_seeds_that_did_not_diverge(tmp_path):
    found = compare_mixers(tasks.Needle(length=32), ["gla", "gdn"], settings=dataclasses.replace(QUICK, seeds=2), shown=False)
    lost = dataclasses.replace(found.layers[0].runs[0], diverged=3, accuracy={}, loss={}, across={})
    one = dataclasses.replace(found.layers[0], runs=(lost, found.layers[0].runs[1]))
    none = dataclasses.replace(found.layers[1], runs=(lost, lost))
    assert one.accuracies_across(32) == found.layers[0].runs[1].across[32]
    assert none.accuracies_across(32) is None
    paths = write_comparison(dataclasses.replace(found, layers=(one, none)), tmp_path)
    assert json.loads(paths[-1].read_text())["layers"][1]["across"]["32"] is None


def test_the_heat_map_says_every_number_and_who_diverged():
    grid = [(0.03, 1.0), (0.5, 0.25)]
    figure = mixers_across_image(
        {"gla": grid, "gdn": [], "a" * 40 + "$": grid},
        task="needle",
        harder="length",
        tests={32: True, 64: False},
        across="depth",
        points=(0.0, 1.0),
        ends=("start", "question"),
        chance=0.05,
        seeds={"gla": (1, 2), "gdn": (0, 2), "a" * 40 + "$": (2, 2)},
    )
    panels = figure.axes[:3]
    assert [text.get_text() for text in panels[0].texts] == ["0.03", "1.00", "0.50", "0.25"]
    assert panels[0].get_title(loc="left") == "gla (1 of 2 seeds diverged)"
    assert [text.get_text() for text in panels[1].texts] == ["diverged"]
    assert panels[2].get_title(loc="left").replace("\n", "") == "a" * 40 + r"\$"
    assert [label.get_text() for label in panels[0].get_yticklabels()] == ["0 (start)", "1 (question)"]


def test_a_task_with_one_axis_has_no_heat_map(tmp_path):
    found = compare_mixers(tasks.Parity(length=8), ["gla"], settings=QUICK, shown=False)
    assert found.across is None
    assert found.layers[0].accuracies_across(8) is None
    assert [path.name for path in write_comparison(found, tmp_path)] == ["table.csv", "compare.png", "compare.json"]


def test_text_comes_from_a_file_or_from_the_built_in_sets(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("abc" * 10_000)
    assert make_task("perplexity", text=path).vocab_size == 256
    assert make_task("perplexity").tests
    found = compare_mixers(make_task("perplexity", {"length": 16}, text=path), ["gla"], settings=QUICK, shown=False)
    names, rows = found.table()
    assert "perplexity" in rows[0][names.index("length 16")]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: make_task("recal"), "recall"),
        (lambda: make_task("parity", {"pairs": 3}), "the task parity has no pairs"),
        (lambda: make_task("parity", {"power": 0.1}), "the task parity has no power"),
        (lambda: make_task("recall", {"length": 64.5}), "a whole number as length of the task recall, got 64.5"),
        (lambda: make_task("recall", {"power": 2}), "at most 1"),
        (lambda: make_task("recall", text="x"), "for the task perplexity"),
        (lambda: make_task("perplexity", text="/nowhere/x"), "cannot be read"),
        (lambda: layer_spec("gdm"), "gdn"),
        (lambda: layer_spec("gdn:heads=3"), "num_heads"),
        (lambda: layer_spec("gdn:num_heads"), "name=value"),
        (lambda: compare_mixers(tasks.Parity(), []), "got none"),
        (lambda: compare_mixers(tasks.Parity(), ["gdn", "gdn"]), "each once"),
        (lambda: CompareSettings(steps=0), "steps of at least 1"),
        (lambda: CompareSettings(learning_rates=(0.0,)), "above 0"),
        (lambda: CompareSettings(learning_rates=(float("nan"),)), "finite"),
        (lambda: CompareSettings(learning_rates=(0.1, 0.1)), "each once"),
    ],
)
def test_refuses(make, says):
    with pytest.raises(InputError, match=says):
        make()
