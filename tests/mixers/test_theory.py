"""The theory bench finds what was planted."""

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.mixers.layers import SequenceLayer
from transect.mixers.layers.base import Inside, Mixed
from transect.mixers.theory import (
    expressiveness,
    interaction_rank,
    jacobian_spectrum,
    reconstruct_input,
    recover_input,
    state_growth,
    step_spectrum,
)


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


class Planted(SequenceLayer):
    """Remembers what it is told to of its inputs, and steps with a delta rule of one beta."""

    def __init__(self, remember, *, beta: float = 1.0) -> None:
        super().__init__(hidden_size=4, layer_idx=0)
        self.remember, self.beta = remember, beta

    def mix(self, x, *, past, packing, form):
        del past, packing, form
        key = torch.nn.functional.normalize(x, dim=-1)[:, :, None]
        inputs = {"q": key, "k": key, "v": x[:, :, None], "beta": torch.full_like(x[..., :1], self.beta)}
        o, state = mixers.delta_rule(**inputs, output_final_state=True)
        inside = Inside(inputs=inputs, o=o, initial_state=None, final_state=state, cu_seqlens=None, op=mixers.delta_rule)
        return Mixed(y=x, parts={"held": self.remember(x)}, inside=inside)


def test_a_layer_is_stepped_as_its_op_says():
    found = step_spectrum(Planted(lambda x: x, beta=2.0), draw(1, 5, 4))
    expected = torch.tensor([-1.0] * 4 + [1.0] * 12, dtype=torch.float64)
    torch.testing.assert_close(found.eigenvalues.real, expected, rtol=0, atol=1e-12)
    assert found.norm == pytest.approx(1.0)
    adding = step_spectrum(made(mixers.LinearAttention).double(), draw(1, 5, 8))
    torch.testing.assert_close(adding.eigenvalues.real, torch.ones(len(adding.eigenvalues), dtype=torch.float64), rtol=0, atol=1e-12)
    assert adding.norm == pytest.approx(1.0)
    # Heads with a rate each: the first head's.
    fading = made(mixers.RetNet).double()
    assert step_spectrum(fading, draw(1, 5, 8)).norm == pytest.approx(1 - 2**-5)


@pytest.mark.parametrize(
    ("remember", "by_token"),
    [
        (lambda x: x[:, -6:].flatten(1), [0, 0, 0, 0, 0, 0]),
        (lambda x: 1e3 * x[:, -2:].flatten(1), [1, 1, 1, 1, 0, 0]),
        (lambda x: 0 * x[:, -1], [1, 1, 1, 1, 1, 1]),
        (lambda x: (x[:, -6:] * 1e-4 ** torch.arange(5.0, -1, -1, dtype=x.dtype)[:, None]).flatten(1), [1, 1, 1, 1, 1, 0]),
        (lambda x: torch.complex(x[:, 0], x[:, 3]), [0, 1, 1, 0, 1, 1]),
        (lambda x: torch.cat([x[:, 0], torch.full_like(x[:, 0], -torch.inf)], 1), [0, 1, 1, 1, 1, 1]),
    ],
    ids=["all", "the last two", "nothing", "fading below 16 bits", "complex", "empty places"],
)
def test_what_is_remembered_is_read_back_and_nothing_else(remember, by_token):
    found = recover_input(Planted(remember), draw(2, 6, 4), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(found.by_token, torch.tensor(by_token, dtype=torch.float64), rtol=0, atol=1e-6)
    assert found.kept == 4 * (6 - sum(by_token))
    assert found.error == pytest.approx((sum(by_token) / 6) ** 0.5, abs=0.03)  # of the sizes of random changes


def test_a_sum_over_tokens_keeps_one_direction_in_so_many():
    found = recover_input(Planted(lambda x: x.sum(1)), draw(1, 8, 4), generator=torch.Generator().manual_seed(0), changes=400)
    assert found.kept == 4
    torch.testing.assert_close(found.by_token, torch.full((8,), (1 - 1 / 8) ** 0.5, dtype=torch.float64), rtol=0, atol=0.05)


def test_a_memory_that_changes_without_pattern_is_not_recovery():
    found = recover_input(Planted(lambda x: (1e9 * x[:, -6:]).sin().flatten(1)), draw(1, 6, 4), generator=torch.Generator().manual_seed(0))
    assert found.error > 0.9


def test_a_linear_recurrence_with_states_enough_loses_nothing():
    def found(tokens):
        layer = mixers.LRU(hidden_size=4, state_size=32, r_min=0.9).double()
        draws = torch.Generator().manual_seed(0)
        return recover_input(layer, draw(1, tokens, 4), generator=draws, tolerance=1e-7)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        assert found(4).error < 1e-3
        assert found(40).error > 0.6


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
    with pytest.raises(InputError, match="got Attention, whose memory grows"):
        step_spectrum(made(mixers.Attention), torch.ones(1, 3, 8))
    with pytest.raises(InputError, match="at least two tokens"):
        step_spectrum(made(mixers.GLA), torch.ones(1, 1, 8))
    draws = torch.Generator()
    with pytest.raises(InputError, match="float32"):
        recover_input(made(mixers.GLA), torch.ones(1, 3, 8), generator=draws)
    with pytest.raises(InputError, match="got Attention, whose memory grows"):
        recover_input(made(mixers.Attention).double(), draw(1, 3, 8), generator=draws)
    with pytest.raises(InputError, match=r"got 0\.0 and 64"):
        recover_input(made(mixers.GLA).double(), draw(1, 3, 8), generator=draws, tolerance=0.0)
    with pytest.raises(InputError, match="0 states"):
        reconstruct_input(torch.ones(3), states=0, low=0.5, high=1.0, generator=torch.Generator())
    with pytest.raises(InputError, match="grows"):
        state_growth(made(mixers.Attention), torch.ones(1, 3, 8))


def test_a_hidden_layer_says_what_a_linear_readout_cannot_once_the_states_hold_all_inputs():
    found = {each.states: each for each in expressiveness([1, 2, 3, 4, 8], generator=torch.Generator().manual_seed(5))}
    assert all(0.95 < each.linear < 1.05 for each in found.values())
    assert found[1].nonlinear > 0.8
    assert found[4].nonlinear < 0.05  # 4 complex states are 8 numbers, for 8 inputs
    assert abs(found[8].nonlinear - found[4].nonlinear) < 0.02


def test_expressiveness_refuses_what_cannot_be():
    draw = torch.Generator()
    for states, settings in (([], {}), ([0], {}), ([1], {"tokens": 1}), ([1], {"width": 0})):
        with pytest.raises(InputError, match="states of at least 1"):
            expressiveness(states, generator=draw, **settings)
