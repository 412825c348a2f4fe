"""RWKV-7: what it is where it has nothing to erase, and what it refuses."""

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.mixers.forms import choose
from transect.testing import mixer_inputs


def test_without_erasing_it_is_gated_linear_attention():
    given = mixer_inputs(mixers.rwkv7, tokens=40)
    nothing = torch.zeros_like(given["a"])
    found = mixers.rwkv7(**{**given, "a": nothing}, output_final_state=True)
    truth = mixers.gla(given["r"], given["k"], given["v"], given["w"], scale=1.0, output_final_state=True)
    for one, other in zip(found, truth, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-12)


def test_with_open_gates_and_its_own_vectors_it_is_the_delta_rule():
    q, k, v, beta = (mixer_inputs(mixers.delta_rule, tokens=40)[name] for name in ("q", "k", "v", "beta"))
    added = beta[..., None] * k
    found, _ = mixers.rwkv7(q, torch.zeros_like(k), added, v, -k, added)
    assert torch.allclose(found, mixers.delta_rule(q, k, v, beta, scale=1.0)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("tokens", "form"), [(1, "recurrent"), (4, "recurrent"), (5, "chunk")])
def test_auto_is_what_it_is_for_every_op(tokens, form):
    assert choose("auto", tokens) == form
    given = {name: value.float() for name, value in mixer_inputs(mixers.rwkv7, tokens=tokens).items()}
    for one, other in zip(
        mixers.rwkv7(**given, output_final_state=True), mixers.rwkv7(**given, output_final_state=True, form=form), strict=True
    ):
        assert torch.equal(one, other)


def test_the_chunk_form_is_differentiable_once():
    given = {name: value.requires_grad_() for name, value in mixer_inputs(mixers.rwkv7, tokens=9).items()}
    out = mixers.rwkv7(**given, form="chunk", chunk_size=4)[0]
    with pytest.raises(InputError, match="differentiated once"):
        torch.autograd.grad(out.sum(), given["w"], create_graph=True)


def test_refuses():
    one = torch.ones(1, 3, 2, 4)
    with pytest.raises(InputError, match="at most 0"):
        mixers.rwkv7(one, one, one, one, one, one)
    with pytest.raises(InputError, match="one shape"):
        mixers.rwkv7(one, -one, one, one, one[:, :2], one)
    with pytest.raises(InputError, match="naive"):
        mixers.rwkv7(one, -one, one, one, one, one, form="nave")  # pyright: ignore[reportArgumentType]
    with torch.random.fork_rng(), pytest.raises(InputError, match="divide hidden_size"):
        mixers.RWKV7(hidden_size=10, num_heads=3)
