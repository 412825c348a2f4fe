"""CHELA's two convolutions against their kernels, and the layer against linear attention."""

from functools import partial
from itertools import pairwise

import pytest
import torch
from torch.nn import functional

from transect import mixers
from transect.errors import InputError
from transect.mixers.diagonal_convolution import diagonal_convolution
from transect.mixers.layers import ShortLongConvolution, short_long_convolution
from transect.mixers.layers.short_long_convolution import LongConvolution
from transect.mixers.models.kinds import layer_kinds
from transect.testing import check_mixer_layer


def _draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _long(channels=3, state_size=4):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return LongConvolution(channels=channels, state_size=state_size).double()


def _layer(**settings):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ShortLongConvolution(hidden_size=12, num_heads=2, **settings)


@pytest.mark.parametrize("form", ["auto", "chunk", "recurrent", "parallel", "naive"])
def test_the_long_convolution_is_that_with_its_kernel(form):
    long, x = _long(), _draw(2, 80, 3)
    for tokens in (1, 31, 32, 80):
        part = x[:, :tokens]
        y, last = long(part, form=form)
        kernel = long.kernel(tokens)
        truth = functional.conv1d(functional.pad(part.mT, (tokens - 1, 0)), kernel.flip(0).mT[:, None], groups=3).mT
        torch.testing.assert_close(y, truth, rtol=0, atol=1e-12)
        torch.testing.assert_close(last, long(part, form="naive")[1], rtol=0, atol=1e-12)


def test_the_kernel_is_the_sum_that_it_is_said_to_be():
    long = _long(channels=1, state_size=2)
    with torch.no_grad():
        long.log_rate.copy_(torch.tensor([[0.1, 2.0]]).double().log())
        long.angle.copy_(torch.tensor([[0.0, 0.5]]))
        long.C.copy_(torch.tensor([[[2.0, 0.0], [0.0, 3.0]]]))
        long.D.fill_(5.0)
    j = torch.arange(6.0, dtype=torch.float64)
    fade = lambda rate: (1 - torch.tensor(-2 * rate, dtype=torch.float64).exp()).sqrt() * (-rate * j).exp()  # noqa: E731
    truth = 2 * fade(0.1) - 3 * fade(2.0) * (0.5 * j).sin() + 5 * (j == 0)
    torch.testing.assert_close(long.kernel(6)[:, 0], truth, rtol=0, atol=1e-6)


def test_the_long_convolution_goes_on_where_it_stopped_and_packed_texts_stay_apart():
    long, x = _long(), _draw(1, 140, 3)
    whole, last = long(x)
    pieces, state = [], None
    for start, end in pairwise((0, 0, 1, 7, 8, 50, 140)):
        y, state = long(x[:, start:end], state=state)
        pieces.append(y)
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(state, last, rtol=0, atol=1e-12)
    packed, states = long(x, bounds=(0, 5, 5, 140))
    assert states.shape == (3, 12, 2)
    torch.testing.assert_close(packed[:, 5:], long(x[:, 5:])[0], rtol=0, atol=1e-12)
    assert not states[1].any()


def test_it_sees_from_one_token_to_thousands_and_never_grows():
    kernel = _long(channels=8, state_size=8).kernel(3000).detach()
    assert float(kernel[1000].abs().mean()) > 1e-3 * float(kernel[1].abs().mean())
    assert float(kernel.abs().amax(1)[2000:].max()) < float(kernel.abs().amax(1)[:10].max())
    long = _long()
    with torch.no_grad():
        long.log_rate.copy_(_draw(3, 4, seed=4) * 5)  # whatever training does to them
    assert long.kernel(10_000).isfinite().all()


def test_tiles_have_the_gradients_of_the_sum_and_later_tokens_change_no_bit():
    long, x = _long(), _draw(1, 70, 3).requires_grad_()
    weight, held = _draw(1, 70, 3, seed=1), _draw(1, 12, 2, seed=2).requires_grad_()
    leaves = [x, held, *long.parameters()]
    (fast, _), (slow, _) = long(x, state=held), long(x, state=held, form="naive")
    for one, other in zip(*(torch.autograd.grad((y * weight).sum(), leaves) for y in (fast, slow)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)
    changed = torch.cat([x[:, :40], 3 * x[:, 40:]], 1)
    assert torch.equal(long(changed, state=held)[0][:, :40], fast[:, :40])
    (grad,) = torch.autograd.grad(long(x, state=held)[0][:, :40].sum(), x)
    assert not grad[:, 40:].any()


def test_without_convolutions_it_is_linear_attention():
    layer, x = _layer(conv_size=3).double(), _draw(2, 21, 12)
    with torch.no_grad():
        layer.short.weight.zero_()
        layer.short.weight[-1] = 1
        layer.long.C.zero_()
        layer.scales.copy_(_draw(2, 2, 6, seed=1))
        layer.offsets.copy_(_draw(2, 2, 6, seed=2))
        z = functional.silu(x)
        u = functional.silu(layer.u_proj(z)).view(2, 21, 2, 6)
        q, k = (u * layer.scales[i] + layer.offsets[i] for i in (0, 1))
        v = functional.silu(layer.v_proj(x)).view(2, 21, 2, 6)
        scores = torch.einsum("bthk,bshk->bhts", q, k).tril() * 6**-0.5
        o = functional.rms_norm(torch.einsum("bhts,bshv->bthv", scores, v), (6,), eps=1e-5).flatten(2)
        truth = layer.o_proj(o * functional.silu(layer.g_proj(z)))
        torch.testing.assert_close(layer(x), truth, rtol=0, atol=1e-12)


def test_its_memory_does_not_grow_with_the_text():
    layer, sizes = _layer(conv_size=3, state_size=5).double(), []
    cache = mixers.MixerCache()
    for tokens in (1, 1, 30):
        layer(_draw(2, tokens, 12), cache=cache)
        sizes.append(cache.numbers())
    assert sizes == [2 * (2 * 12 + 2 * 5 * 12 + 2 * 6 * 6)] * 3


def test_the_contract_with_other_sizes():
    check_mixer_layer(_layer(head_k_dim=3, head_v_dim=5, conv_size=2, state_size=1))


def test_the_contract_with_tiles_that_its_few_tokens_fill(monkeypatch):
    monkeypatch.setattr(short_long_convolution, "diagonal_convolution", partial(diagonal_convolution, tile=4))
    check_mixer_layer(_layer())


def test_a_stack_can_name_it_and_every_weight_learns():
    assert layer_kinds()["chela"] is ShortLongConvolution
    assert {"lightnet", "shortlongconvolution"} <= set(layer_kinds())
    layer = _layer().double()
    grads = torch.autograd.grad(layer(_draw(2, 9, 12)).square().sum(), list(layer.parameters()))
    assert all(grad.any() and grad.isfinite().all() for grad in grads)


def test_bad_sizes_are_refused():
    good = {"hidden_size": 12, "num_heads": 2, "head_k_dim": 3, "head_v_dim": 3, "conv_size": 4, "state_size": 8}
    bad = {"hidden_size": 0, "num_heads": 0, "head_k_dim": 0, "head_v_dim": 0, "conv_size": 1, "state_size": 0}
    with torch.random.fork_rng():
        ShortLongConvolution(**good)
        for name, size in bad.items():
            with pytest.raises(InputError, match="expected"):
                ShortLongConvolution(**{**good, name: size})
        with pytest.raises(InputError, match="divide"):
            ShortLongConvolution(hidden_size=12, num_heads=5)
    with pytest.raises(InputError, match="12"):
        _layer()(torch.zeros(1, 3, 11))
