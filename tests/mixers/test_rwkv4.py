"""RWKV-4: the op against its definition and transformers' loop, the channel mix, and stacks whose feed-forward layers remember."""

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.mixers.models.kinds import feed_forward_kinds
from transect.testing import check_mixer, check_mixer_layer

FORMS = ["naive", "recurrent", "chunk", "parallel"]


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def _inputs(tokens=21, heads=5, dtype=torch.float64, size=1.0):
    parts = size * torch.randn(2, tokens, heads), torch.randn(2, tokens, heads, 1), -torch.randn(heads).abs(), torch.randn(heads)
    return [part.to(dtype) for part in parts]


def _theirs(k, v, g, u):
    from transformers.models.rwkv.modeling_rwkv import rwkv_linear_attention_cpu

    return rwkv_linear_attention_cpu((-g).log(), u, k, v[..., 0], return_state=True)


def test_contract():
    check_mixer(mixers.wkv)


@pytest.mark.parametrize("form", FORMS)
def test_it_is_the_loop_of_transformers_with_keys_of_any_size(form):
    for size in (1.0, 1e3):
        given = _inputs(tokens=70, size=size, dtype=torch.float32)
        o, state = mixers.wkv(*given, form=form, output_final_state=True)
        truth, (num, den, largest) = _theirs(*given)
        bound = 1e-5 if size == 1 else 1e-3  # keys of 1e3 leave the loop's 32 bits an error of 1e-4 in each exponential
        assert float((o[..., 0] - truth).abs().max() / truth.abs().max()) < bound
        assert float((state[..., 0] - num / den).abs().max() / truth.abs().max()) < bound
        assert torch.allclose(state[..., 1], largest + den.log(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_huge_keys_neither_overflow_nor_lose_digits(form):
    given = [part.requires_grad_() for part in _inputs(size=1e3, dtype=torch.float32)]
    o, _ = mixers.wkv(*given, form=form)
    truth, _ = mixers.wkv(*(part.detach().double() for part in given), form="naive")
    assert float((o.double() - truth).detach().abs().max()) < 1e-5
    grads = torch.autograd.grad(o.square().sum(), given)
    assert all(grad.isfinite().all() for grad in grads)


@pytest.mark.parametrize("form", FORMS)
def test_the_ends_of_the_decay(form):
    k, v, g, u = _inputs()
    running = (v * k.exp()[..., None]).cumsum(1) / k.exp().cumsum(1)[..., None]
    o, _ = mixers.wkv(k, v, 0 * g, 0 * u, form=form, chunk_size=4)
    assert torch.allclose(o, running, rtol=0, atol=1e-12)  # nothing is forgotten, and the newest token is one of all
    closed = torch.full_like(g, -torch.inf).requires_grad_()
    o, state = mixers.wkv(k, v, closed, u, form=form, chunk_size=4, output_final_state=True)
    share = torch.sigmoid(u + k[:, 1:] - k[:, :-1])[..., None]
    assert torch.allclose(o[:, 1:], share * v[:, 1:] + (1 - share) * v[:, :-1], rtol=0, atol=1e-12)  # the token before is all there is
    assert torch.allclose(state[..., 0], v[:, -1, :, 0], rtol=0, atol=1e-12)
    assert torch.autograd.grad(o.sum() + state.sum(), closed)[0].isfinite().all()


def test_refuses_inputs():
    k, v, g, u = _inputs()
    with pytest.raises(InputError, match=r"at most 0, got 1\. Pass -exp"):
        mixers.wkv(k, v, torch.ones_like(g), u)
    with pytest.raises(InputError, match=r"log_weights \[B, T, H\]"):
        mixers.wkv(v, v, g, u)
    with pytest.raises(InputError, match=r"bonus \[H\]"):
        mixers.wkv(k, v, g, u[:2])
    with pytest.raises(InputError, match=r"shape \[2, 5, 2\]"):
        mixers.wkv(k, v, g, u, initial_state=torch.zeros(2, 5, 1))
    with pytest.raises(InputError, match="floating-point"):
        mixers.wkv(k.long(), v, g, u)
    with pytest.raises(InputError, match="power of two"):
        mixers.wkv(k, v, g, u, chunk_size=3)
    with pytest.raises(InputError, match="inner_size of at least 1"):
        mixers.RWKV4(hidden_size=4, inner_size=0)
    with pytest.raises(InputError, match="intermediate_size of at least 1"):
        mixers.ChannelMix(hidden_size=4, intermediate_size=0)


def test_contract_of_a_layer_of_another_width():
    check_mixer_layer(mixers.RWKV4(hidden_size=6, inner_size=10))


def test_the_rows_of_the_effective_matrix_are_shares():
    _, inside = mixers.RWKV4(hidden_size=6)(torch.randn(2, 9, 6), return_inside=True)
    matrix = inside.effective_matrix()
    assert matrix.shape == (2, 6, 9, 9)
    assert torch.allclose(matrix.sum(-1), torch.ones(2, 6, 9), atol=1e-5)


def test_layers_are_those_of_transformers():
    from transformers import RwkvConfig
    from transformers.models.rwkv.modeling_rwkv import RwkvFeedForward

    theirs = RwkvFeedForward(RwkvConfig(hidden_size=6, intermediate_size=10, num_hidden_layers=2))
    ours = mixers.ChannelMix(hidden_size=6, intermediate_size=10)
    with torch.no_grad():
        for name, to in (("receptance", ours.r_proj), ("key", ours.up_proj), ("value", ours.down_proj)):
            to.weight.copy_(getattr(theirs, name).weight)
        for row, part in enumerate((theirs.time_mix_receptance, theirs.time_mix_key)):
            part.uniform_()
            ours.mixes[row] = part.flatten()
        x = torch.randn(2, 9, 6)
        assert torch.allclose(ours(x), theirs(x)[0], rtol=0, atol=1e-6)


STATEFUL = sorted(name for name, kind in feed_forward_kinds().items() if issubclass(kind, mixers.layers.SequenceLayer))


def _model(**settings):
    sizes = {"layers": ["rwkv4", "gdn", "rwkv4"], "hidden_size": 16, "num_heads": 2, "vocab_size": 29}
    usual = {"feed_forward": ["channel_mix", "channel_mix", "swiglu"], "norm": "layer", "embedding_norm": True}
    model = mixers.build(mixers.StackConfig(**{**sizes, **usual, **settings})).eval()
    with torch.no_grad():
        for part in model.parameters():
            part.add_(0.1 * torch.randn_like(part))
    return model


def _near(one, other):
    assert one.shape == other.shape
    assert float((one - other).abs().max() / other.abs().max()) < 1e-5


@pytest.mark.parametrize("kind", STATEFUL)
def test_feed_forward_layers_that_remember_go_on_from_a_cache_padded_and_packed(kind):
    assert {"channelmix", "channel_mix"} <= set(STATEFUL)
    model, ids = _model(feed_forward=kind), torch.randint(0, 29, (3, 11))
    masks = torch.ones(3, 11, dtype=torch.long)
    masks[0, :4], masks[1, 8:], masks[2, 3:6] = 0, 0, 0
    with torch.no_grad():
        whole = model(ids, use_cache=False).logits
        first = model(ids[:, :4], use_cache=True)
        assert len(first.cache.memory) == 6
        kept = first.cache.memory.snapshot()
        rest = [model(ids[:, at : at + 1], cache=first.cache).logits for at in range(4, 11)]
        _near(torch.cat([first.logits, *rest], 1), whole)
        first.cache.memory.restore(kept)
        first.cache.batch_select_indices(torch.tensor([2, 0]))
        _near(model(ids[[2, 0], 4:], cache=first.cache).logits, whole[[2, 0], 4:])
        for row, mask, one in zip(ids, masks.bool(), model(ids, attention_mask=masks).logits, strict=True):
            _near(one[mask], model(row[mask][None]).logits[0])
        packed = model(ids[:1], cu_seqlens=[0, 5, 5, 11]).logits
        _near(packed, torch.cat([model(ids[:1, :5]).logits, model(ids[:1, 5:]).logits], 1))


@pytest.mark.parametrize("settings", [{"num_beams": 3, "do_sample": False}, {"do_sample": False}])
def test_generates_the_same_with_and_without_a_cache(settings):
    model, ids = _model(), torch.randint(0, 29, (2, 6))
    mask = torch.ones(2, 6, dtype=torch.long)
    mask[1, :4] = 0
    both = [model.generate(ids, attention_mask=mask, max_new_tokens=8, use_cache=use, **settings)[:, 6:] for use in (True, False)]
    assert torch.equal(*both)
    alone = model.generate(ids[1:, 4:], attention_mask=mask[1:, 4:], max_new_tokens=8, **settings)[:, 2:]
    assert torch.equal(alone, both[0][1:])


def test_saved_loaded_and_checkpointed_it_is_the_same(tmp_path):
    model, ids = _model(norm_eps=[1e-5, 1e-3, 1e-2], final_norm_eps=1e-1), torch.randint(0, 29, (2, 9))
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path).eval()
    assert [block.norm.eps for block in again.model.layers] == [1e-5, 1e-3, 1e-2]
    assert (again.model.embed_norm.eps, again.model.norm.eps) == (1e-5, 1e-1)
    assert torch.equal(again(ids).logits, model(ids).logits)
    model.train()
    model(ids, labels=ids).loss.backward()
    plain = {name: part.grad.clone() for name, part in model.named_parameters()}
    model.zero_grad()
    model.activation_checkpointing_enable()
    model(ids, labels=ids).loss.backward()
    assert all(torch.equal(part.grad, plain[name]) for name, part in model.named_parameters())


def test_refuses_norms():
    with pytest.raises(InputError, match="norm that exists, got 'rmss'"):
        mixers.StackConfig(layers=["gla"], norm="rmss")
    with pytest.raises(InputError, match="norm_eps for each of 1 layers, got 2"):
        mixers.StackConfig(layers=["gla"], norm_eps=[1e-5, 1e-5])
