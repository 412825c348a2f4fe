"""The theory bench finds what was planted."""

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.mixers.theory import interaction_rank, jacobian_spectrum, reconstruct_input, state_growth


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(kind, **settings):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind(hidden_size=8, num_heads=2, **settings)


def test_attention_spans_as_much_as_it_is_shown_and_a_fixed_interaction_one_dimension():
    attention = made(mixers.Attention).double()
    assert [interaction_rank(attention, draw(n, 6, 8)).ranks for n in (2, 5, 9)] == [(2, 2), (5, 5), (9, 9)]
    assert max(interaction_rank(attention, draw(40, 6, 8)).ranks) <= 6 * 7 // 2
    assert interaction_rank(attention, draw(3, 6, 8).repeat(4, 1, 1)).ranks == (3, 3)


def test_a_time_invariant_recurrence_spans_its_dimensions():
    # Queries and keys that do not depend on the input: the matrices are one matrix, whatever is read.
    layer = made(mixers.RetNet).double()
    with torch.no_grad():
        layer.qkv_proj.weight[:16].zero_()
        layer.qkv_proj.weight[:16, 0] = 1
    x = draw(7, 6, 8)
    x[..., 0] = 1
    found = interaction_rank(layer, x)
    assert found.ranks == (1, 1)
    assert bool((found.fade[:, 1:] < found.fade[:, :1]).all())


@pytest.mark.parametrize("beta", [0.3, 1.0, 1.7, 2.0])
def test_a_householder_step_has_its_eigenvalues(beta):
    key = draw(1, 1, 1, 4)
    key /= key.norm()
    step = {"q": key, "k": key, "v": draw(1, 1, 1, 3, seed=1), "beta": torch.full((1, 1, 1), beta, dtype=torch.float64)}
    found = jacobian_spectrum(mixers.delta_rule, step, draw(1, 1, 4, 3, seed=2))
    expected = torch.tensor(sorted([1 - beta] * 3 + [1.0] * 9), dtype=torch.float64)
    torch.testing.assert_close(found.eigenvalues.real, expected, rtol=0, atol=1e-12)
    assert found.norm == pytest.approx(1.0)


def test_an_input_is_read_back_from_enough_states_alone():
    u = draw(12)

    def found(states, low=0.95):
        return reconstruct_input(u, states=states, low=low, high=1.0, generator=torch.Generator().manual_seed(0))

    assert found(24).error < 1e-9
    assert found(5).error > 0.05  # ten real equations for twelve unknowns
    small = reconstruct_input(u, states=24, low=0.1, high=0.3, generator=torch.Generator().manual_seed(0))
    assert small.condition > 1e3 * found(24).condition


def test_linear_attention_grows_and_a_delta_rule_does_not():
    x = draw(1, 1, 8).expand(1, 60, 8).contiguous()
    linear = state_growth(made(mixers.LinearAttention).double(), x)
    delta = state_growth(made(mixers.DeltaNet).double(), x)
    assert bool((linear[-1] > 1.9 * linear[29]).all())
    assert bool((delta[-1] < 1.5 * delta[29]).all())


def test_bad_inputs_are_named():
    with pytest.raises(InputError, match="float64"):
        interaction_rank(made(mixers.GLA), torch.ones(3, 4, 8))
    with pytest.raises(InputError, match="one sequence and head"):
        jacobian_spectrum(mixers.delta_rule, {}, torch.zeros(2, 1, 2, 2))
    with pytest.raises(InputError, match="0 states"):
        reconstruct_input(torch.ones(3), states=0, low=0.5, high=1.0, generator=torch.Generator())
    with pytest.raises(InputError, match="grows"):
        state_growth(made(mixers.Attention), torch.ones(1, 3, 8))
