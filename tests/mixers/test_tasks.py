"""The tasks ask what they say, from the generator alone, and the answer is in the sequence."""

import inspect

import pytest
import torch

from transect.errors import InputError
from transect.mixers import tasks
from transect.mixers.tasks.base import IGNORE

TASKS = [tasks.Recall(), tasks.Capacity(), tasks.Needle(), tasks.Parity(), tasks.ModularSum(), tasks.S3(), tasks.A5(), tasks.S5()]
TASKS.append(tasks.Text(data=bytes(range(256)) * 60))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.alias)
def test_contract(task):
    before = torch.get_rng_state()
    for test in (None, *task.tests):
        one, two = (task.batch(torch.Generator().manual_seed(3), 4, test=test) for _ in range(2))
        other = task.batch(torch.Generator().manual_seed(4), 4, test=test)
        assert torch.equal(one.ids, two.ids)
        assert torch.equal(one.targets, two.targets)
        assert one.ids.shape != other.ids.shape or not torch.equal(one.ids, other.ids)
        asked = one.targets[one.targets != IGNORE]
        assert len(asked)
        for part in (one.ids, asked):
            assert 0 <= int(part.min()) <= int(part.max()) < task.vocab_size
    assert any(task.tests.values())
    assert all(0 < task.chance(test) < 1 for test in task.tests)
    assert torch.equal(before, torch.get_rng_state())


def test_every_task_is_tested():
    kinds = {getattr(tasks, name) for name in tasks.__all__}
    concrete = {kind for kind in kinds if issubclass(kind, tasks.Task) and not inspect.isabstract(kind)}
    assert concrete == {type(task) for task in TASKS}
    assert len({kind.alias for kind in concrete}) == len(concrete)


@pytest.mark.parametrize("task", [tasks.Recall(), tasks.Capacity()], ids=lambda task: task.alias)
def test_the_value_asked_is_the_one_beside_the_key(task):
    for test in (None, *task.tests):
        batch = task.batch(torch.Generator().manual_seed(0), 5, test=test)
        for ids, targets in zip(batch.ids.tolist(), batch.targets.tolist(), strict=True):
            places = [place for place, value in enumerate(targets) if value != IGNORE]
            held = dict(zip(ids[0 : 2 * len(places) : 2], ids[1 : 2 * len(places) : 2], strict=True))
            assert len(held) == len(places)
            assert {ids[place] for place in places} == set(held)
            assert all(targets[place] == held[ids[place]] for place in places)


def test_without_a_power_the_draws_are_those_of_uniform_gaps():
    task, draw = tasks.Recall(vocab=20, pairs=3, length=16), torch.Generator().manual_seed(9)
    keys = torch.rand(5, 9, generator=draw).argsort(1)[:, :3] + 1
    values = torch.randint(10, 20, (5, 3), generator=draw)
    ids = torch.randint(1, 20, (5, 16), generator=draw)
    ids[:, 0:6:2], ids[:, 1:6:2] = keys, values
    ids.scatter_(1, 6 + torch.rand(5, 10, generator=draw).argsort(1)[:, :3], keys)
    after = torch.Generator().manual_seed(9)
    assert torch.equal(task.batch(after, 5).ids, ids)
    assert torch.equal(after.get_state(), draw.get_state())


@pytest.mark.parametrize("power", [0.01, 0.5, 1.0])
def test_gaps_follow_the_power_law(power):
    n, size = 6, 40_000
    batch = tasks.Recall(vocab=8, pairs=2, length=4 + n, power=power).batch(torch.Generator().manual_seed(0), size)
    keys, asked = batch.ids[:, 0:4:2], batch.targets != IGNORE
    places = asked.nonzero()[:, 1].reshape(size, 2) - 4
    of_first = batch.ids[:, 4:].gather(1, places) == keys[:, :1]
    first = places[of_first]
    second = places[~of_first]
    assert len(first) == len(second) == size
    weight = power * torch.arange(1, n + 1, dtype=torch.float64) ** (power - 1)
    share = weight / weight.sum()
    # The first pair draws by weight; the second, whatever the first took, by weight from the rest.
    both = share[:, None] * share[None] / (1 - share[:, None])
    both.fill_diagonal_(0)
    seen = torch.bincount(first * n + second, minlength=n * n).reshape(n, n) / size
    torch.testing.assert_close(seen.sum(1), share.float(), rtol=0, atol=5 * (0.25 / size) ** 0.5)
    torch.testing.assert_close(seen, both.float(), rtol=0, atol=5 * (0.25 / size) ** 0.5)


def test_tests_of_recall_have_the_power_too():
    def mean_place(task, test):
        batch = task.batch(torch.Generator().manual_seed(0), 200, test=test)
        return float((batch.targets != IGNORE).nonzero()[:, 1].double().mean())

    for test in tasks.Recall().tests:
        assert mean_place(tasks.Recall(power=0.01), test) < 0.8 * mean_place(tasks.Recall(), test)


def test_the_needle_is_in_the_haystack():
    batch = tasks.Needle().batch(torch.Generator().manual_seed(0), 20, test=256)
    for ids, targets in zip(batch.ids.tolist(), batch.targets.tolist(), strict=True):
        place = ids.index(0)
        assert ids[place + 1] == ids[-1]
        assert ids[place + 2] == targets[-1]
        assert ids.count(0) == 1


@pytest.mark.parametrize(("length", "places"), [(20, [0, 4, 8, 11, 15]), (512, [0, 127, 254, 380, 507])])
def test_a_needle_lies_as_deep_as_asked_in_the_same_haystack(length, places):
    task = tasks.Needle()
    assert task.across.points == (0, 0.25, 0.5, 0.75, 1)
    batches = [task.batch_at(torch.Generator().manual_seed(5), 8, test=length, at=at) for at in task.across.points]
    again = [task.batch_at(torch.Generator().manual_seed(5), 8, test=length, at=at) for at in task.across.points]
    for batch, same, place in zip(batches, again, places, strict=True):
        assert torch.equal(batch.ids, same.ids)
        assert torch.equal(batch.targets, batches[0].targets)
        assert batch.ids.shape == (8, length)
        assert ((batch.ids == 0).nonzero()[:, 1] == place).all()
        assert torch.equal(batch.ids[:, place + 1], batch.ids[:, -1])
        assert torch.equal(batch.ids[:, place + 2], batch.targets[:, -1])
    # Random places reach from the first depth to the last, and no further.
    drawn = (task.batch(torch.Generator().manual_seed(0), 4000, test=length).ids == 0).nonzero()[:, 1]
    assert drawn.min() == places[0]
    assert drawn.max() <= places[-1]


@pytest.mark.parametrize("at", [-0.1, 1.5, float("nan")])
def test_refuses_depths(at):
    with pytest.raises(InputError, match=f"got {at}"):
        tasks.Needle().batch_at(torch.Generator(), 1, test=64, at=at)


def test_a_task_without_a_second_axis_says_so():
    assert [task.alias for task in TASKS if task.across is not None] == ["needle"]
    with pytest.raises(InputError, match="second axis, got parity"):
        tasks.Parity().batch_at(torch.Generator(), 1, test=32, at=0.5)


@pytest.mark.parametrize("task", [tasks.S3(), tasks.A5(), tasks.S5()], ids=lambda task: task.alias)
def test_the_tables_are_groups_whose_order_matters(task):
    table = task.table()
    n = len(table)
    assert torch.equal(table[0], torch.arange(n))
    assert torch.equal(table[:, 0], torch.arange(n))
    assert all(len(set(row)) == n for row in table.tolist())
    a, b, c = torch.randint(0, n, (3, 200), generator=torch.Generator().manual_seed(0))
    assert torch.equal(table[table[a, b], c], table[a, table[b, c]])
    assert not torch.equal(table, table.mT)
    assert n == {"s3": 6, "a5": 60, "s5": 120}[task.alias]


def test_test_text_is_not_training_text():
    task = tasks.Text(data=b"a" * 90_000 + b"b" * 10_000, length=50)
    assert set(task.batch(torch.Generator().manual_seed(0), 200).ids.flatten().tolist()) == {ord("a")}
    assert set(task.batch(torch.Generator().manual_seed(0), 200, test=100).ids.flatten().tolist()) == {ord("b")}


def test_validation_text_is_neither_training_nor_test_text():
    task = tasks.Text(data=b"a" * 80_000 + b"b" * 10_000 + b"c" * 10_000, length=50)
    draws = (task.batch(torch.Generator(), 200), task.validation(torch.Generator(), 200), task.batch(torch.Generator(), 200, test=200))
    assert [set(draw.ids.flatten().tolist()) for draw in draws] == [{ord("a")}, {ord("b")}, {ord("c")}]


@pytest.mark.parametrize(
    ("kind", "settings", "says"),
    [
        (tasks.Recall, {"pairs": 64}, "64 pairs"),
        (tasks.Recall, {"length": 20}, "length 20"),
        (tasks.Recall, {"power": 0.0}, "above 0 and at most 1, or none for uniform gaps, got 0.0"),
        (tasks.Recall, {"power": 1.5}, "got 1.5"),
        (tasks.Recall, {"power": float("nan")}, "got nan"),
        (tasks.Capacity, {"pairs": 200}, "200 of vocab 256"),
        (tasks.Needle, {"length": 8}, "at least 20"),
        (tasks.Parity, {"length": 3}, "at least 4, got 3"),
        (tasks.Text, {"data": b"short"}, "got 5"),
    ],
)
def test_refuses_sizes(kind, settings, says):
    with pytest.raises(InputError, match=says):
        kind(**settings)
