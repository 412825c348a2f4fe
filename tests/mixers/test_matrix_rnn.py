"""Matrices chosen by tokens: contracts, what each kind can track with weights written down, what it cannot, what it costs, and what is refused."""

import itertools
import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from transect import mixers
from transect.errors import InputError
from transect.mixers import tasks
from transect.testing import check_mixer_layer

KINDS = ["full", "factored", "block", "rotation", "diagonal"]
FORMS = ["chunk", "recurrent", "parallel", "naive"]


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.mark.parametrize("settings", [{}, {"bounded": True}, {"bias": True, "additive": True}], ids=["pure", "bounded", "with more"])
@pytest.mark.parametrize("transition", KINDS)
def test_contract_of_bilinear_layers(transition, settings):
    check_mixer_layer(mixers.BilinearRNN(hidden_size=8, num_heads=2, transition=transition, **settings))


@pytest.mark.parametrize("settings", [{}, {"p": 1.2, "centred": True}, {"num_heads": 1, "inner_size": 5}])
def test_contract_of_block_diagonal_layers(settings):
    check_mixer_layer(mixers.BlockDiagonalRNN(**{"hidden_size": 6, "num_heads": 3, **settings}))


@pytest.mark.parametrize("transition", KINDS)
def test_matrices_are_linear_in_the_token(transition):
    layer = mixers.BilinearRNN(hidden_size=6, num_heads=2, head_dim=4, transition=transition).double()
    x, y = torch.randn(2, 1, 3, 6, dtype=torch.float64)
    assert torch.allclose(layer.transitions(2 * x - 3 * y), 2 * layer.transitions(x) - 3 * layer.transitions(y), rtol=0, atol=1e-12)


def test_factored_matrices_have_the_rank_that_was_chosen():
    layer = mixers.BilinearRNN(hidden_size=6, num_heads=2, head_dim=5, transition="factored", rank=3).double()
    x = torch.randn(1, 1, 6, dtype=torch.float64)
    found = layer.transitions(x)[0, 0]
    assert torch.linalg.matrix_rank(found).tolist() == [3, 3]
    scales = layer.a_proj.weight.view(2, 3, 6) @ x[0, 0]
    for head in range(2):
        wanted = layer.left[head] @ torch.diag(scales[head]) @ layer.right[head].mT
        assert torch.allclose(found[head], wanted, rtol=0, atol=1e-12)


@torch.no_grad()
def _states(layer, ids, first, **settings):
    """States ``[B, T, H, D]`` on tokens that are unit vectors, from a state of one's own."""
    layer.first.copy_(first)
    x = torch.nn.functional.one_hot(ids, layer.hidden_size).to(layer.first.dtype)
    return layer(x, return_inside=True, **settings)[1].o


@torch.no_grad()
def _choose(layer, matrices):
    """Let token e of a block-diagonal RNN make ``matrices[e] [H, D, D]``, and add nothing."""
    for part in layer.parameters():
        part.zero_()
    layer.make_blocks[0].weight.copy_(torch.eye(len(matrices)))
    layer.make_blocks[2].weight.copy_(matrices.flatten(1).mT)


@pytest.mark.parametrize("form", FORMS)
def test_full_ones_track_a5_exactly_however_long(form):
    task = tasks.A5()
    table = task.table()
    batch = task.batch(torch.Generator().manual_seed(0), 2, test=256)
    matrices = torch.nn.functional.one_hot(table.mT, len(table)).float()  # element e sends the product p to p e
    layer = mixers.BilinearRNN(hidden_size=60, num_heads=1, transition="full")
    with torch.no_grad():
        layer.a_proj.weight.copy_(matrices.mT.flatten(1).mT)
    h = _states(layer, batch.ids, torch.eye(60)[:1], form=form)
    assert torch.equal(h[:, -1, 0].argmax(-1), batch.targets[:, -1])
    assert torch.equal(h.sum(-1), torch.ones(2, 256, 1))


@pytest.mark.parametrize("kind", ["bilinear", "bounded", "block-diagonal"])
def test_blocks_of_k_track_all_permutations_of_k_exactly(kind):
    k = 4
    places = torch.tensor(list(itertools.permutations(range(k))))
    matrices = torch.nn.functional.one_hot(places, k).float().mT[:, None].repeat(1, k, 1, 1)  # [element, head, to, from]
    if kind == "block-diagonal":
        layer = mixers.BlockDiagonalRNN(hidden_size=len(places), num_heads=k, head_dim=k, inner_size=len(places))
        _choose(layer, matrices)
    else:
        layer = mixers.BilinearRNN(hidden_size=len(places), num_heads=k, head_dim=k, bounded=kind == "bounded")
        with torch.no_grad():
            layer.a_proj.weight.copy_(matrices.flatten(1).mT)
    ids = torch.randint(0, len(places), (2, 500))
    h = _states(layer, ids, torch.eye(k))  # thing j begins at place j
    at = torch.arange(k).expand(2, k)
    for t in range(500):
        at = places[ids[:, t]].gather(1, at)
        assert torch.equal(h[:, t], torch.nn.functional.one_hot(at, k).float())


def test_blocks_follow_automata_that_forget():
    letters, states = 3, 5
    moves = torch.randint(0, states, (letters, states))
    matrices = torch.nn.functional.one_hot(moves, states).float().mT[:, None]
    layer = mixers.BlockDiagonalRNN(hidden_size=letters, num_heads=1, head_dim=states, inner_size=letters)
    _choose(layer, matrices)
    ids = torch.randint(0, letters, (1, 1000))
    h = _states(layer, ids, torch.eye(states)[:1])
    at = 0
    for t, letter in enumerate(ids[0].tolist()):
        at = int(moves[letter, at])
        assert int(h[0, t, 0].argmax()) == at
        assert float(h[0, t, 0, at]) == 1


def _turning(modulus):
    layer = mixers.BilinearRNN(hidden_size=modulus, num_heads=1, head_dim=2, transition="rotation", bounded=True)
    angles = 2 * math.pi * torch.arange(modulus) / modulus
    with torch.no_grad():
        layer.a_proj.weight.copy_(torch.stack([angles.cos(), angles.sin()]))
    return layer


@pytest.mark.parametrize("modulus", [2, 3, 7])
def test_rotations_track_sums_of_any_modulus(modulus):
    ids = torch.randint(0, modulus, (2, 2000))
    h = _states(_turning(modulus), ids, torch.tensor([[1.0, 0.0]]))
    turns = torch.atan2(h[..., 0, 1], h[..., 0, 0]) * modulus / (2 * math.pi)
    assert torch.equal(turns.round().long() % modulus, ids.cumsum(1) % modulus)
    assert float((turns - turns.round()).abs().max()) < 0.01


def test_diagonals_track_parity_exactly():
    layer = mixers.BilinearRNN(hidden_size=2, num_heads=1, head_dim=1, transition="diagonal")
    with torch.no_grad():
        layer.a_proj.weight.copy_(torch.tensor([[1.0, -1.0]]))
    ids = torch.randint(0, 2, (2, 3000))
    h = _states(layer, ids, torch.ones(1, 1))
    assert torch.equal(h[..., 0, 0], 1.0 - 2.0 * (ids.cumsum(1) % 2))


def test_real_diagonals_cannot_count_to_three_and_rotations_can():
    """``|a^t - a^(t - 2)| = |a|^(t - 2) (1 - a^2)``, at most ``2 / (e (t - 2))`` for real a of at most 1: two tokens more change nothing in the long run."""
    steps = 4001
    layer = mixers.BilinearRNN(hidden_size=2, num_heads=1, head_dim=600, transition="diagonal", bounded=True).double()
    with torch.no_grad():
        layer.a_proj.weight[:, 1] = torch.cat([torch.linspace(-1, 1, 200), 1 - torch.logspace(-6, 0, 200), torch.logspace(-6, 0, 200) - 1])
    ids = torch.ones(1, steps, dtype=torch.long)
    h = _states(layer, ids, torch.ones(1, 600, dtype=torch.float64))
    assert float((h[:, -1] - h[:, -3]).abs().max()) <= 2 / (math.e * (steps - 2)) * 1.001
    turned = _states(_turning(3), ids, torch.tensor([[1.0, 0.0]]))
    assert float((turned[:, -1] - turned[:, -3]).norm()) > 1


@pytest.mark.parametrize("transition", ["rotation", "diagonal"])
def test_numbers_do_not_see_order_and_so_cannot_track_s3(transition):
    task = tasks.S3()
    table = task.table()
    layer = mixers.BilinearRNN(hidden_size=6, num_heads=2, head_dim=8, transition=transition, bounded=True).double()
    first = torch.randn(2, 8, dtype=torch.float64)
    one, other = next(pair for pair in itertools.permutations(range(6), 2) if table[pair] != table[pair[::-1]])
    here, there = (_states(layer, torch.tensor([pair]), first)[:, -1] for pair in ((one, other), (other, one)))
    assert torch.allclose(here, there, rtol=0, atol=1e-12)
    matrices = mixers.BilinearRNN(hidden_size=6, num_heads=2, head_dim=8).double()
    here, there = (_states(matrices, torch.tensor([pair]), first)[:, -1] for pair in ((one, other), (other, one)))
    assert float((here - there).abs().max()) > 0.01


@pytest.mark.parametrize("transition", KINDS)
@torch.no_grad()
def test_linear_ones_may_grow_and_bounded_ones_do_not(transition):
    x = 10 * torch.randn(1, 30, 8)
    sizes = {}
    for bounded in (False, True):
        torch.manual_seed(0)
        layer = mixers.BilinearRNN(hidden_size=8, num_heads=2, transition=transition, bounded=bounded)
        inside = layer(x, return_inside=True)[1]
        h = torch.cat([inside.initial_state[:, None], inside.o], 1)
        h = h.unflatten(-1, (-1, 2)).norm(dim=-1) if transition == "rotation" else h.abs()
        sizes[bounded] = h.flatten(2).sum(2)
    assert float(sizes[False][0, -1]) > 1e6 * float(sizes[False][0, 0])
    assert (sizes[True].diff() <= 1e-5 * sizes[True][:, :1]).all()


@pytest.mark.parametrize("centred", [False, True])
@torch.no_grad()
def test_blocks_do_not_let_a_state_grow(centred):
    layer = mixers.BlockDiagonalRNN(hidden_size=8, num_heads=2, centred=centred)
    for part in layer.make_additions.parameters():
        part.zero_()
    found = layer.transitions(100 * torch.randn(1, 30, 8))
    inside = layer(100 * torch.randn(1, 300, 8), return_inside=True)[1]
    assert torch.allclose(found.abs().sum(-2).amax(-1), torch.ones(1, 30, 2), atol=1e-6)
    assert not centred or float(found.sum(-2).abs().max()) < 1e-5
    sizes = torch.cat([inside.initial_state[:, None], inside.o], 1).abs().sum(-1)
    assert (sizes.diff(dim=1) <= 1e-5 * sizes[:, :1]).all()


def test_the_published_norm_may_stretch_a_block_by_as_much_as_it_says():
    layer = mixers.BlockDiagonalRNN(hidden_size=2, num_heads=1, head_dim=2, inner_size=2, p=1.2, centred=True)
    _choose(layer, torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]], [[[0.0, 1.0], [1.0, 0.0]]]]))
    h = _states(layer, torch.ones(1, 100, dtype=torch.long), torch.tensor([[1.0, -1.0]]))
    assert math.isclose(float(h[0, -1].norm() / h[0, 0].norm()) ** (1 / 99), 2 ** (1 - 1 / 1.2), rel_tol=1e-5)


class _Largest(TorchDispatchMode):
    """The largest tensor that anything made."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for part in torch.utils._pytree.tree_leaves(found):
            if isinstance(part, torch.Tensor):
                self.numbers = max(self.numbers, part.numel())
        return found


@pytest.mark.parametrize("form", ["auto", "recurrent", "parallel"])
@pytest.mark.parametrize(("transition", "cheap"), [("rotation", True), ("diagonal", True), ("block", False)])
def test_rotations_and_diagonals_make_no_matrices(transition, cheap, form):
    layer = mixers.BilinearRNN(hidden_size=4, num_heads=1, head_dim=64, transition=transition)
    x = torch.randn(1, 32, 4, requires_grad=True)
    with _Largest() as seen:
        layer(x, form=form).sum().backward()
    assert (seen.numbers <= 2 * 32 * 64) == cheap


@pytest.mark.parametrize(("width", "form"), [(32, "chunk"), (33, "recurrent")])
def test_wide_matrices_are_not_multiplied_with_each_other(width, form):
    a, b = torch.randn(1, 20, 1, width, width) / width**0.5, torch.randn(1, 20, 1, width)
    assert torch.equal(mixers.matrix_recurrence(a, b)[0], mixers.matrix_recurrence(a, b, form=form)[0])


def test_refuses():
    with pytest.raises(InputError, match=r"\[B, T, H, D, D\]"):
        mixers.matrix_recurrence(torch.ones(1, 2, 1, 3, 2), torch.ones(1, 2, 1, 3))
    with pytest.raises(InputError, match="rise from 0"):
        mixers.matrix_recurrence(torch.ones(1, 2, 1, 3, 3), torch.ones(1, 2, 1, 3), cu_seqlens=[0, 1])
    for settings, says in (
        ({"transition": "rotate"}, "rotation"),
        ({"num_heads": 3}, "divide"),
        ({"head_dim": 0}, "and 0"),
        ({"transition": "rotation", "head_dim": 3}, "even"),
        ({"rank": 2}, "factored matrices only"),
        ({"transition": "factored", "rank": 0}, "at least 1"),
    ):
        with pytest.raises(InputError, match=says):
            mixers.BilinearRNN(**{"hidden_size": 8, "num_heads": 2, **settings})
    for settings, says in (({"p": 0.5}, "p of at least 1"), ({"inner_size": 0}, "got 1.0 and 0"), ({"num_heads": 3}, "divide")):
        with pytest.raises(InputError, match=says):
            mixers.BlockDiagonalRNN(**{"hidden_size": 8, "num_heads": 2, **settings})
