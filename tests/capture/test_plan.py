import numpy as np
import pytest

from transect.capture.plan import padding_share, plan_batches
from transect.errors import InputError


def ragged(n, seed=0):
    return np.random.default_rng(seed).integers(12, 46, size=n)


@pytest.mark.parametrize("patience", [0, 16, 500])
@pytest.mark.parametrize("budget", [1, 40, 1024])
def test_every_example_is_in_one_batch_within_the_budget(budget, patience):
    lengths = ragged(300)
    batches = plan_batches(lengths, budget=budget, patience=patience)
    assert sorted(np.concatenate([batch.rows for batch in batches]).tolist()) == list(range(300))
    for batch in batches:
        assert batch.length == lengths[batch.rows].max()
        assert len(batch.rows) == 1 or batch.length * len(batch.rows) <= budget
        assert (batch.length - lengths[batch.rows]).sum() <= patience


def test_no_patience_means_no_padding():
    lengths = ragged(300)
    batches = plan_batches(lengths, budget=1024, patience=0)
    assert all(len(set(lengths[batch.rows])) == 1 for batch in batches)
    assert padding_share(lengths, batches) == 0


def test_patience_saves_batches_and_pads_little():
    lengths = ragged(300)
    strict, patient = (plan_batches(lengths, budget=1024, patience=patience) for patience in (0, 16))
    assert len(patient) < len(strict)
    assert padding_share(lengths, patient) < 0.04


def test_longest_come_first_and_equal_lengths_keep_their_order():
    batches = plan_batches(np.array([3, 7, 3, 3, 7]), budget=100, patience=0)
    assert [batch.rows.tolist() for batch in batches] == [[1, 4], [0, 2, 3]]


def test_a_million_examples_are_planned_quickly():
    batches = plan_batches(ragged(1_000_000), budget=1024, patience=16)
    assert sum(len(batch.rows) for batch in batches) == 1_000_000


def test_a_budget_below_one_is_refused():
    with pytest.raises(InputError, match="batch_tokens=0"):
        plan_batches(np.array([1]), budget=0, patience=0)
