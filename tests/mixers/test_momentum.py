"""The delta rule with momentum: what it is without, what it adds, and what it refuses."""

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.testing import mixer_inputs


def test_without_momentum_it_is_the_gated_delta_rule():
    given = mixer_inputs(mixers.momentum_delta_rule, tokens=40)
    nothing = torch.zeros_like(given["mu"])
    for form in ("chunk", "recurrent", "parallel", "naive"):
        out, state = mixers.momentum_delta_rule(**{**given, "mu": nothing}, output_final_state=True, form=form)
        rest = {name: given[name] for name in ("q", "k", "v", "g", "beta")}
        truth, final = mixers.gated_delta_rule(**rest, output_final_state=True)
        assert torch.allclose(out, truth, rtol=0, atol=1e-12)
        assert torch.allclose(state[..., :4], final, rtol=0, atol=1e-12)


def test_one_write_goes_on_and_fades():
    k = torch.zeros(1, 4, 1, 2, dtype=torch.float64)
    k[0, 0, 0, 0] = 1
    q = torch.zeros_like(k)
    q[..., 0] = 1
    ones, half = torch.ones(1, 4, 1, dtype=torch.float64), torch.full((1, 4, 1), 0.5, dtype=torch.float64)
    out, _ = mixers.momentum_delta_rule(q, k, ones[..., None], 0 * ones, half, ones, scale=1.0)
    assert torch.allclose(out.flatten(), torch.tensor([1.0, 1.5, 1.75, 1.875], dtype=torch.float64))


def test_refuses():
    given = mixer_inputs(mixers.momentum_delta_rule, tokens=3)
    for mu, says in (
        (given["mu"] + 1, "from 0 to below 1"),
        (given["mu"][:, :2], r"\[2, 3, 2\], got \[2, 2, 2\]"),
        (-given["mu"], "got -"),
    ):
        with pytest.raises(InputError, match=says):
            mixers.momentum_delta_rule(**{**given, "mu": mu})
    with pytest.raises(InputError, match="2 V = 8"):
        mixers.momentum_delta_rule(**given, initial_state=torch.zeros(2, 2, 3, 4))
    with torch.random.fork_rng(), pytest.raises(InputError, match="max_momentum"):
        mixers.MomentumDeltaNet(hidden_size=8, num_heads=2, max_momentum=1.0)
