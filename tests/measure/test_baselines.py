import numpy as np
import pytest

from transect.errors import InputError
from transect.measure import auroc, fit_bag_of_words, fit_length, fit_majority, multiclass_auroc, spearman

WORDS = np.array(["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"])


def texts(rng, n, extra=None):
    made = [" ".join(rng.choice(WORDS, 6)) for _ in range(n)]
    return made if extra is None else [f"{text} {word}" for text, word in zip(made, extra, strict=True)]


def test_bag_of_words_finds_a_word_that_gives_the_label_away():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 160)
    data = texts(rng, 160, np.where(labels == 1, "x", "y"))
    fitted = fit_bag_of_words(data[:100], labels[:100], groups=np.arange(100) // 2)
    assert auroc(fitted.scores(data[100:]), labels[100:]) == 1.0
    assert "by 5 folds" in fitted.detail


def test_bag_of_words_finds_a_pair_of_words():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    data = [f"{text} {'one two' if label else 'two one'}" for text, label in zip(texts(rng, 200), labels, strict=True)]
    fitted = fit_bag_of_words(data[:100], labels[:100])
    assert auroc(fitted.scores(data[100:]), labels[100:]) > 0.95


def test_every_baseline_is_at_chance_where_the_text_says_nothing():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 500)
    data = texts(rng, 500)
    for fit in (fit_bag_of_words, fit_length, fit_majority):
        assert auroc(fit(data[:200], labels[:200]).scores(data[200:]), labels[200:]) == pytest.approx(0.5, abs=0.12)


def test_length_sees_length_only():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 100)
    data = ["word " * (3 + 4 * label) for label in labels]
    assert auroc(fit_length(data[:50], labels[:50]).scores(data[50:]), labels[50:]) == 1.0


def test_more_classes_and_numbers():
    rng = np.random.default_rng(0)
    codes = np.tile([0, 1, 2], 50)
    data = texts(rng, 150, np.array(["red", "green", "blue"])[codes])
    fitted = fit_bag_of_words(data[:90], codes[:90], kind="multiclass")
    assert fitted.scores(data[90:]).shape == (60, 3)
    assert multiclass_auroc(fitted.scores(data[90:]), codes[90:]) == 1.0
    assert fit_length(data, codes, kind="multiclass").scores(data).shape == (150, 3)
    assert multiclass_auroc(fit_majority(data, codes, kind="multiclass").scores(data), codes) == 0.5
    numbers = codes + 0.1 * rng.normal(size=150)
    assert spearman(fit_bag_of_words(data[:90], numbers[:90], kind="number").scores(data[90:]), numbers[90:]) > 0.8
    assert fit_majority(data, numbers, kind="number").scores(["a"]) == pytest.approx([numbers.mean()])


def test_the_strength_is_chosen_over_groups_so_copies_do_not_deceive():
    # Labels are random by group, and a group's words are its own: nothing carries over to other groups.
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 4)
    labels = rng.integers(0, 2, 40)[groups]
    data = [f"only{group} word{group}" for group in groups]
    held = [f"only{group} word{group}" for group in range(100, 150)]
    fitted = fit_bag_of_words(data, labels, groups=groups)
    assert auroc(fitted.scores(held), np.tile([0, 1], 25)) == 0.5


def test_too_few_groups_and_texts_without_words_are_said():
    assert "too few groups" in fit_bag_of_words(["a b", "c d"] * 3, [0, 1] * 3, groups=np.zeros(6)).detail
    empty = fit_bag_of_words(["!!", "??"] * 6, [0, 1] * 6)
    assert "no words" in empty.detail and empty.scores(["!", "?"]).tolist() == [0.0, 0.0]


def test_the_same_seed_gives_the_same_baseline():
    rng = np.random.default_rng(0)
    labels, data = rng.integers(0, 2, 60), texts(rng, 60)
    first, second = (fit_bag_of_words(data, labels, seed=3).scores(data) for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize(
    ("targets", "kind", "message"),
    [
        ([1, 1], "binary", "targets that differ"),
        ([0, 1, 0], "binary", "one entry for each of the 2 rows"),
        ([0, 2], "binary", "every index from 0 to 2"),
        ([0, 1], "binry", "kind must be one of"),
    ],
)
def test_bad_targets_are_named(targets, kind, message):
    for fit in (fit_bag_of_words, fit_length, fit_majority):
        with pytest.raises(InputError, match=message):
            fit(["a", "b"], targets, kind=kind)
    with pytest.raises(InputError, match="no texts"):
        fit_length(["a", "bb"], [0, 1]).scores([])
