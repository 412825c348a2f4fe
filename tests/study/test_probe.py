"""The whole study from Python, for every kind of label, on a tiny model."""

import dataclasses

import numpy as np
import pytest
import torch

import transect
from transect.errors import InputError
from transect.probes import LDA
from transect.study import Settings, probe
from transect.testing import tiny

QUICK = Settings(permutations=20, refits=20, directions=20, resamples=200)
WORDS = ["river", "stone", "lamp", "tiger", "cloud", "paper", "green", "table", "music", "water"]


def rows(label_of, n=120):
    generator = np.random.default_rng(0)
    texts = [f"{index} {' '.join(generator.choice(WORDS, size=generator.integers(3, 9)))}" for index in range(n)]
    return [{"text": text, "label": label_of(text)} for text in texts]


@pytest.fixture(scope="module")
def model():
    return tiny("llama")


def last_word(text):
    """What the last token of even a random model carries, and a bag of words too."""
    return WORDS.index(text.split()[-1])


def test_numbers_are_read_by_ridge_and_judged_by_rank_correlation(model):
    table = transect.read_table(rows(lambda text: last_word(text) / 4, n=400), name="lasts", kind="number")
    found = probe(
        model, table, tests=[transect.read_table(rows(lambda text: last_word(text) / 3), name="again", kind="number")], settings=QUICK
    )
    report = found.report
    assert report.metric.name == "spearman"
    assert report.selected.probe == "Ridge"
    assert report.test.spearman.value > 0.8
    assert report.test.auroc is None
    assert report.baselines["random_direction"].spearman.low < 0 < report.baselines["random_direction"].spearman.high
    assert report.verdict.readable is True
    assert report.verdict.transfers == {"again": "yes"}
    assert found.readout.classes is None
    assert {pair.test for pair in report.transfer} == {"lasts", "again"}


def test_three_classes_have_a_row_of_weights_each(model):
    table = transect.read_table(rows(lambda text: ("a", "b", "c")[last_word(text) % 3]), name="letters")
    found = probe(model, table, fitter=LDA(), settings=QUICK)
    assert found.readout.weight.shape == (3, 16)
    assert found.report.metric.name == "auroc"
    assert found.report.test.auroc.value > 0.7
    assert {scored.probe for scored in found.report.probes_compared} == {"MeanDifference", "Logistic"}
    assert found.report.test.brier is not None
    assert sum(sum(counts) for counts in found.report.score_histograms[0].counts.values()) == found.report.data.split.n_test


def test_noise_is_called_chance(model):
    generator = np.random.default_rng(1)
    table = transect.read_table(rows(lambda _text: bool(generator.random() < 0.5)), name="noise")
    report = probe(model, table, settings=QUICK).report
    assert report.verdict.readable is not True
    assert report.baselines["shuffled_labels"].p > 0.01


def test_it_leaves_the_model_as_it_was(model):
    before = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    hooks = sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.module.modules())
    probe(model, "elements", settings=QUICK)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.module.state_dict().items())
    assert hooks == sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.module.modules())


def test_a_model_that_takes_tensors_is_pointed_elsewhere():
    with pytest.raises(InputError, match="takes tensors, not texts"):
        probe(tiny("mlp"), "elements", settings=QUICK)


def test_one_class_and_too_few_groups_are_refused(model):
    with pytest.raises(InputError, match="at least two different labels"):
        probe(model, [{"text": f"text number {index}", "label": index % 3 // 3} for index in range(9)], settings=QUICK)
    two = [{"text": f"statement {index} {index * 7}", "label": index % 2, "group": f"g{index // 6}"} for index in range(12)]
    with pytest.raises(InputError, match=r"groups?"):
        probe(model, two, settings=QUICK)


@pytest.mark.parametrize("folds", [2, 3])
def test_site_and_strength_are_chosen_for_each_fold_without_it(model, folds):
    table = transect.read_table(rows(lambda text: ["low", "high"][last_word(text) // 5]), name="halves")
    selected = probe(model, table, settings=dataclasses.replace(QUICK, folds=folds)).report.selected
    assert selected.corrected.method.startswith(
        f"nested cross-validation: best of {selected.n_candidates} chosen for each of {folds} folds"
    )
    assert 0.8 < selected.corrected.value <= selected.validation.value + 0.02
    assert selected.optimism == pytest.approx(selected.validation.value - selected.corrected.value)


def test_where_a_fold_cannot_be_chosen_for_without_it_groups_are_resampled(model):
    """Of two folds, one holds a single group, so nothing inside it can be measured for the choice of the other."""
    table = rows(lambda text: ["low", "high"][last_word(text) // 5], n=60)
    grouped = [row | {"group": "one" if at < 25 else "two" if at < 45 else "three"} for at, row in enumerate(table)]
    table = transect.read_table(grouped, name="few", group="group")
    selected = probe(model, table, settings=dataclasses.replace(QUICK, folds=2, controls=())).report.selected
    assert selected.corrected.method.startswith("BBC-CV")
