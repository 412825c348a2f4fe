import time

import numpy as np
import pytest

from transect.data import group_folds, read_table, split_by_group, split_table
from transect.errors import InputError


def random_groups(n, n_groups, *, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, n_groups, size=n)
    # Groups lean towards one class, as they do in life.
    codes = np.where(rng.random(n) < 0.7, groups % classes, rng.integers(0, classes, size=n))
    return np.array([f"g{group}" for group in groups], dtype=object), codes


def parts_of(groups, part):
    seen = {}
    for group, at in zip(groups, part.tolist(), strict=True):
        seen.setdefault(group, set()).add(at)
    return seen


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n", "n_groups", "classes"), [(300, 60, 2), (300, 300, 3), (1000, 40, 5)])
def test_folds_keep_groups_whole_and_share_out_every_class(n, n_groups, classes, seed):
    groups, codes = random_groups(n, n_groups, classes=classes, seed=seed)
    folds = group_folds(groups, codes, folds=5, seed=seed)
    assert all(len(parts) == 1 for parts in parts_of(groups, folds).values())
    assert sorted(set(folds.tolist())) == [0, 1, 2, 3, 4]
    largest = max(np.unique(groups, return_counts=True)[1])
    for code in range(classes):
        counts = np.bincount(folds[codes == code], minlength=5)
        # No fold can be off by more than about one group, since groups are whole.
        assert counts.max() - counts.min() <= largest


def test_folds_of_equal_groups_are_exactly_balanced():
    table = read_table("cities")
    assert table.groups is not None
    folds = group_folds(table.groups, table.codes, folds=5)
    sizes = np.bincount(folds)
    assert sizes.max() - sizes.min() <= 4
    for fold in range(5):
        assert table.codes[folds == fold].mean() == 0.5


def test_the_same_seed_gives_the_same_folds_and_another_seed_others():
    groups, codes = random_groups(200, 50)
    first = group_folds(groups, codes, seed=1)
    assert np.array_equal(first, group_folds(groups, codes, seed=1))
    assert not np.array_equal(first, group_folds(groups, codes, seed=2))
    assert not np.array_equal(split_by_group(groups, codes, seed=1), split_by_group(groups, codes, seed=2))


def test_the_names_of_groups_do_not_matter():
    groups, codes = random_groups(200, 50)
    numbers = np.unique(groups, return_inverse=True)[1]
    assert np.array_equal(group_folds(groups, codes), group_folds(numbers, codes))


def test_folds_without_labels_and_with_numbers():
    groups = np.arange(100)
    assert np.bincount(group_folds(groups, None, folds=4)).tolist() == [25] * 4
    values = np.random.default_rng(0).normal(size=100)
    folds = group_folds(groups, values, folds=4)
    low = values < np.quantile(values, 0.2)
    assert np.bincount(folds[low], minlength=4).tolist() == [5] * 4


def test_too_few_groups():
    with pytest.raises(InputError, match="5 folds need at least 5 groups, but there are 3"):
        group_folds(np.array([0, 0, 1, 2]), np.array([0, 1, 0, 1]), folds=5)
    with pytest.raises(InputError, match="at least 2, got 1"):
        group_folds(np.arange(4), None, folds=1)
    with pytest.raises(InputError, match="one length, got 4 and 3"):
        group_folds(np.arange(4), np.zeros(3, dtype=int), folds=2)


def test_a_class_in_one_group_cannot_be_both_learnt_and_tested():
    groups = np.arange(20)
    codes = np.array([0] * 10 + [1] * 9 + [2])
    with pytest.raises(InputError, match=r"the class 'rare' has 1 rows in 1 group"):
        group_folds(groups, codes, folds=2, classes=("a", "b", "rare"))
    with pytest.raises(InputError, match="the class number 2"):
        group_folds(groups, codes, folds=5)


def test_a_class_in_one_group_is_never_only_tested():
    groups, codes = np.arange(20), np.array([0] * 10 + [1] * 9 + [2])
    for seed in range(20):
        held_out = split_by_group(groups, codes, test=0.3, seed=seed)
        assert not held_out[codes == 2].any()


@pytest.mark.parametrize("test", [0.1, 0.3, 0.5, 0.8])
def test_the_held_out_share_is_the_asked_one_in_every_class(test):
    groups, codes = random_groups(2000, 500)
    held_out = split_by_group(groups, codes, test=test)
    assert all(len(parts) == 1 for parts in parts_of(groups, held_out).values())
    for code in (0, 1):
        assert abs(held_out[codes == code].mean() - test) < 0.01


def test_a_held_out_share_must_be_possible():
    with pytest.raises(InputError, match=r"between 0 and 1, got 1\.0"):
        split_by_group(np.arange(4), None, test=1.0)
    with pytest.raises(InputError, match="one group"):
        split_by_group(np.zeros(4, dtype=int), None)
    with pytest.raises(InputError, match=r"cannot be spread over 2 parts: the sizes would be \[2\]"):
        split_by_group(np.array([0, 1]), None, test=0.01)


def test_a_million_groups_take_seconds():
    rng = np.random.default_rng(0)
    groups, codes = np.arange(1_000_000), rng.integers(0, 3, size=1_000_000)
    start = time.process_time()
    folds = group_folds(groups, codes, folds=5)
    assert time.process_time() - start < 15  # about 2 on a quiet machine
    assert np.ptp(np.bincount(folds)) <= 3


def rows(*values):
    return [{"text": text, "label": label, "split": split} for text, label, split in values]


def test_a_table_without_splits_is_split_by_group_and_duplicate():
    table = read_table([{"text": f"text number {i // 2}", "label": i // 2 % 2} for i in range(40)])
    split = split_table(table, test=0.25)
    assert not {table.texts[i] for i in split.train} & {table.texts[i] for i in split.test}
    assert sorted([*split.train, *split.test]) == list(range(40))
    assert len(split.validation) == 0
    assert any("20 rows repeat" in note for note in split.notes)


def test_a_table_keeps_its_own_splits_but_copies_leave_the_training_part():
    table = read_table(
        rows(
            ("one", 1, "train"), ("Two!", 1, "train"), ("three", 0, "train"), ("four", 1, "train"),
            ("four", 1, "dev"), ("five", 0, "dev"), ("six", 0, "dev"),
            ("two", 1, "test"), ("six", 0, "test"),
        )
    )  # fmt: skip
    split = split_table(table)
    assert split.train.tolist() == [0, 2]
    assert split.test.tolist() == [7, 8]
    assert split.validation.tolist() == [4, 5]


def test_what_leaves_the_training_part_is_counted():
    long = "a long text about rivers, mountains, valleys, glaciers, forests, deserts, meadows, marshes, beaches and cliffs"
    values = [(f"text {i}", i % 2, "train") for i in range(10)] + [("Text 3.", 1, "test"), ("other", 0, "test")]
    values += [(long, 1, "train"), (long + " too", 0, "test")]
    split = split_table(read_table(rows(*values)))
    assert split.notes == (
        "1 train rows repeat a test text and were left out of train.",
        "1 train rows are near duplicates of a test text and were left out of train.",
    )
    assert 3 not in split.train
    assert 12 not in split.train
    assert split_table(read_table(rows(*values)), near=False).notes == split.notes[:1]


def test_a_label_that_only_the_test_part_has():
    values = [("a", 0, "train"), ("b", 1, "train"), ("c", 2, "test"), ("d", 0, "test")]
    with pytest.raises(InputError, match="the label 2 is in the test rows but not in train"):
        split_table(read_table(rows(*values)))


def test_a_split_without_training_or_test_rows():
    with pytest.raises(InputError, match=r"no test rows are left; the split column has {'train': 2}"):
        split_table(read_table(rows(("a", 0, "train"), ("b", 1, "train"))))
    with pytest.raises(InputError, match="no train rows are left"):
        split_table(read_table(rows(("a", 0, "train"), ("A", 0, "test"))))
