"""Matrices chosen by tokens: contracts, groups tracked exactly, and what is refused."""

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.mixers import tasks
from transect.testing import check_mixer_layer


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.mark.parametrize(
    "settings",
    [
        {"num_heads": 1},
        {"num_heads": 2, "transition": "rotation", "head_dim": 4},
        {"num_heads": 3, "transition": "diagonal"},
        {"num_heads": 2, "additive": False},
    ],
)
def test_contract(settings):
    check_mixer_layer(mixers.BilinearRNN(hidden_size=6, **settings))


@pytest.mark.parametrize("form", ["chunk", "recurrent", "parallel", "naive"])
def test_permutations_track_a_group_exactly_however_long(form):
    task = tasks.A5()
    table = task.table()
    batch = task.batch(torch.Generator().manual_seed(0), 2, test=256)
    matrices = torch.nn.functional.one_hot(table.mT, len(table)).float()  # element e sends the product p to p e
    moves = matrices[batch.ids].mT[:, :, None]
    start = torch.zeros(2, 1, len(table))
    start[:, :, 0] = 1
    h, _ = mixers.matrix_recurrence(moves, torch.zeros(2, 256, 1, len(table)), initial_state=start, form=form)
    assert torch.equal(h[:, -1, 0].argmax(-1), batch.targets[:, -1])
    assert torch.equal(h.sum(-1), torch.ones(2, 256, 1))


def test_rotations_keep_the_length_and_blocks_do_not_grow():
    layer = mixers.BilinearRNN(hidden_size=8, num_heads=2, transition="rotation")
    found = layer.matrices(torch.randn(1, 3, 8))
    assert torch.allclose(found @ found.mT, torch.eye(4).expand_as(found), atol=1e-6)
    block = mixers.BilinearRNN(hidden_size=8, num_heads=2).matrices(100 * torch.randn(1, 3, 8))
    assert float(block.detach().abs().sum(-2).max()) <= 1 + 1e-5


def test_refuses():
    with pytest.raises(InputError, match=r"\[B, T, H, D, D\]"):
        mixers.matrix_recurrence(torch.ones(1, 2, 1, 3, 2), torch.ones(1, 2, 1, 3))
    with pytest.raises(InputError, match="rise from 0"):
        mixers.matrix_recurrence(torch.ones(1, 2, 1, 3, 3), torch.ones(1, 2, 1, 3), cu_seqlens=[0, 1])
    for settings, says in (
        ({"transition": "rotate"}, "rotation"),
        ({"num_heads": 3}, "divide"),
        ({"transition": "rotation", "head_dim": 3}, "even"),
    ):
        with pytest.raises(InputError, match=says):
            mixers.BilinearRNN(**{"hidden_size": 8, "num_heads": 2, **settings})
