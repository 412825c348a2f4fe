"""Variational linear attention: its matrix, its Jacobian, its bounded state, and the contracts."""

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.mixers.variational import variational_linear_attention


def _given(tokens=30, width=5):
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(2, tokens, 2, each, generator=draw, dtype=torch.float64) for each in (width, width, 4)]


@pytest.mark.parametrize("penalty", [0.1, 1.0, 10.0])
def test_the_factor_is_that_of_the_inverse_of_all_keys(penalty):
    q, k, v = _given()
    _, state = variational_linear_attention(q, k, v, penalty=penalty, output_final_state=True)
    factor = state[..., 4:]
    truth = torch.linalg.inv(penalty * torch.eye(5, dtype=torch.float64) + torch.einsum("bthi,bthj->bhij", k, k))
    assert torch.allclose(factor @ factor.mT, truth, rtol=0, atol=1e-12)


def test_the_jacobian_of_a_step_has_norm_one_after_any_number_of_tokens():
    q, k, v = (part[:1, :, :1] for part in _given(tokens=40))
    state = None
    for t in range(40):
        step = [part[:, t : t + 1] for part in (q, k, v)]
        if state is not None:
            fixed = state[..., 4:]

            def move(memory, step=step, fixed=fixed):
                moved = variational_linear_attention(*step, initial_state=torch.cat([memory, fixed], 3), output_final_state=True)[1]
                return moved[0, 0, :, 0]

            jacobian = torch.autograd.functional.jacobian(move, state[..., :4])[:, 0, 0, :, 0]
            assert abs(float(torch.linalg.matrix_norm(jacobian, 2)) - 1) < 1e-12
        state = variational_linear_attention(*step, initial_state=state, output_final_state=True)[1]


def test_the_state_stays_bounded_where_that_of_linear_attention_grows():
    q, k, v = _given(tokens=1000)
    k, v = torch.nn.functional.normalize(k + 1, dim=-1), torch.nn.functional.normalize(v + 1, dim=-1)
    ours = variational_linear_attention(q, k, v, output_final_state=True)[1][..., :4].norm()
    sums = mixers.linear_attention(q, k, v, output_final_state=True)[1].norm()
    early = variational_linear_attention(q[:, :100], k[:, :100], v[:, :100], output_final_state=True)[1][..., :4].norm()
    assert float(sums / ours) > 50
    assert float(ours) < 2 * float(early)


def test_new_directions_are_written_exactly():
    k = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0][None, :, None]
    v = torch.randn(1, 5, 1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    state = variational_linear_attention(k, 3 * k, v, output_final_state=True)[1][..., :3]
    assert torch.allclose(k[:, :, 0] @ state[:, 0], v[:, :, 0], rtol=0, atol=1e-12)


def test_refuses():
    one = torch.ones(1, 2, 1, 2)
    with pytest.raises(InputError, match="penalty above 0, got 0"):
        variational_linear_attention(one, one, one, penalty=0)
    with pytest.raises(InputError, match=r"V \+ K = 4"):
        variational_linear_attention(one, one, one, initial_state=torch.ones(1, 1, 2, 2))
    with torch.random.fork_rng(), pytest.raises(InputError, match="penalty above 0"):
        mixers.VariationalLinearAttention(hidden_size=8, num_heads=2, penalty=-1.0)
