import numpy as np
import pytest
import torch
from scipy import stats
from sklearn import metrics

from transect.errors import InputError
from transect.measure import accuracy, auroc, auroc_columns, balanced_accuracy, multiclass_auroc, r2, spearman
from transect.measure.naive import naive_auroc

TOLERANCE = 1e-12


def draw(seed, n=60, ties=False):
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < 0.4
    scores = rng.normal(size=n) + labels
    return (scores.round(0) if ties else scores), labels


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_auroc_is_the_pair_count_and_scikit_learns_value(seed, ties):
    scores, labels = draw(seed, ties=ties)
    value = auroc(scores, labels)
    assert value == pytest.approx(naive_auroc(scores, labels), abs=TOLERANCE)
    assert value == pytest.approx(metrics.roc_auc_score(labels, scores), abs=TOLERANCE)


@pytest.mark.parametrize("ties", [False, True])
def test_weighted_auroc_is_scikit_learns_value(ties):
    scores, labels = draw(1, ties=ties)
    weights = np.random.default_rng(2).random(60)
    expected = metrics.roc_auc_score(labels, scores, sample_weight=weights)
    assert auroc(scores, labels, weights=weights) == pytest.approx(expected, abs=TOLERANCE)
    assert auroc(scores, labels, weights=np.ones(60)) == pytest.approx(auroc(scores, labels), abs=TOLERANCE)


def test_columns_are_the_single_values_for_scores_and_for_labels():
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(50, 7)).round(1), rng.random((50, 7)) < 0.5
    both = auroc_columns(scores, labels)
    for column in range(7):
        assert both[column] == auroc(scores[:, column], labels[:, column])
        assert auroc_columns(scores, labels[:, 0])[column] == auroc(scores[:, column], labels[:, 0])
        assert auroc_columns(scores[:, 0], labels)[column] == auroc(scores[:, 0], labels[:, column])


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
def test_torch_tensors_of_any_dtype_are_read(kind):
    scores = torch.tensor([0.5, 1.5, 1.0, 2.0], dtype=kind, requires_grad=True)
    assert auroc(scores, torch.tensor([False, False, True, True])) == 0.75


def test_equal_scores_are_chance_and_flipping_mirrors():
    scores, labels = draw(3)
    assert auroc(np.zeros(60), labels) == 0.5
    assert auroc(-scores, labels) == pytest.approx(1 - auroc(scores, labels), abs=TOLERANCE)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_multiclass_auroc_is_scikit_learns_macro_value(k):
    rng = np.random.default_rng(k)
    codes = rng.integers(0, k, 80)
    scores = rng.dirichlet(np.ones(k), size=80)
    if k > 2:
        expected = metrics.roc_auc_score(codes, scores, multi_class="ovr", average="macro")
    else:
        expected = metrics.roc_auc_score(codes, scores[:, 1])
    assert multiclass_auroc(scores, codes) == pytest.approx(expected, abs=TOLERANCE)


def test_accuracies_r2_and_spearman_are_scikit_learns_and_scipys():
    rng = np.random.default_rng(0)
    truth, guess = rng.integers(0, 3, 90), rng.integers(0, 3, 90)
    assert accuracy(guess, truth) == pytest.approx(metrics.accuracy_score(truth, guess), abs=TOLERANCE)
    assert balanced_accuracy(guess, truth) == pytest.approx(metrics.balanced_accuracy_score(truth, guess), abs=TOLERANCE)
    numbers, predicted = rng.normal(size=90).round(1), rng.normal(size=90).round(1)
    assert r2(predicted, numbers) == pytest.approx(metrics.r2_score(numbers, predicted), abs=TOLERANCE)
    assert spearman(predicted, numbers) == pytest.approx(stats.spearmanr(predicted, numbers).statistic, abs=TOLERANCE)
    assert spearman(np.ones(90), numbers) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: auroc([1, 2], [1, 1]), "both classes, but all 2 rows are positive"),
        (lambda: auroc([1, 2], [0, 0]), "all 2 rows are negative"),
        (lambda: auroc([1, 2, float("nan")], [0, 1, 1]), "the first is row 2"),
        (lambda: auroc([1, 2], [0, 1, 1]), "each of the 2 rows, got 3"),
        (lambda: auroc([1, 2], [0, 2]), "booleans or 0 and 1, got 2"),
        (lambda: auroc([], []), "empty"),
        (lambda: auroc(["a", "b"], [0, 1]), "must be numbers"),
        (lambda: auroc([1, 2], [0, 1], weights=[-1, 1]), "must not be negative"),
        (lambda: auroc([1, 2], [0, 1], weights=[0, 1]), "weights of one class are all 0"),
        (lambda: auroc_columns(np.ones((2, 2)), np.ones((2, 3))), "as many columns"),
        (lambda: multiclass_auroc(np.ones((2, 3)), [0, 1]), r"none of class \[2\]"),
        (lambda: multiclass_auroc(np.ones((2, 2)), [0, 2]), "2 columns"),
        (lambda: accuracy([0.5, 1], [0, 1]), "class indices"),
        (lambda: r2([1, 2], [3, 3]), "targets that differ"),
        (lambda: spearman([1, 2], [3, 3]), "targets that differ"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
