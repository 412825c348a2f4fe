"""The layers against the contract, against transformers, and broken ones."""

import inspect

import pytest
import torch
import torch.utils.checkpoint

from transect import mixers
from transect.errors import InputError
from transect.mixers import layers
from transect.mixers.layers.short_convolution import ShortConvolution
from transect.testing import all_mixer_layers, check_mixer_layer


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def _layer(kind, **settings):
    """A small layer; of the usual sizes, those that its constructor takes."""
    sizes = {"hidden_size": 12, "num_heads": 2, "head_k_dim": 4, "head_v_dim": 6}
    taken = inspect.signature(kind).parameters
    return kind(**{name: size for name, size in sizes.items() if name in taken or "settings" in taken}, **settings)


@pytest.mark.parametrize("kind", all_mixer_layers(), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "settings", [{}, {"conv_size": None, "use_gate": False}, {"conv_size": 3, "use_gate": True}], ids=["plain", "bare", "full"]
)
def test_contract(kind, settings):
    if not set(settings) <= set(inspect.signature(kind).parameters):
        pytest.skip("a layer without these settings")
    check_mixer_layer(_layer(kind, **settings))


@pytest.mark.parametrize("kind", [mixers.GatedDeltaNet, mixers.DeltaNet, mixers.KDA])
def test_contract_with_negative_eigenvalues(kind):
    check_mixer_layer(_layer(kind, allow_neg_eigval=True))


def test_gated_delta_net_is_that_of_qwen3_next():
    from transformers.models.qwen3_next import Qwen3NextConfig
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

    sizes = {"linear_num_value_heads": 2, "linear_num_key_heads": 2, "linear_key_head_dim": 4, "linear_value_head_dim": 6}
    config = Qwen3NextConfig(hidden_size=12, linear_conv_kernel_dim=4, rms_norm_eps=1e-5, num_hidden_layers=1, **sizes)
    theirs = Qwen3NextGatedDeltaNet(config, 0)
    ours = mixers.GatedDeltaNet(hidden_size=12, num_heads=2, head_k_dim=4, head_v_dim=6)
    with torch.no_grad():
        parts = theirs.in_proj_qkvz.weight.view(2, 20, 12).split([4, 4, 6, 6], 1)  # by head: q, k, v and the gate
        ours.qkv_proj.weight.copy_(torch.cat([part.flatten(0, 1) for part in parts[:3]]))
        ours.g_proj.weight.copy_(parts[3].flatten(0, 1))
        beta, a = theirs.in_proj_ba.weight.view(2, 2, 12).unbind(1)
        ours.b_proj.weight.copy_(beta)
        ours.a_proj.weight.copy_(a)
        ours.conv.weight.copy_(theirs.conv1d.weight[:, 0].mT)
        for name in ("A_log", "dt_bias"):
            getattr(ours, name).copy_(getattr(theirs, name))
        ours.norm.weight.copy_(theirs.norm.weight)
        ours.o_proj.weight.copy_(theirs.out_proj.weight)
        x = torch.randn(2, 70, 12)
        truth = theirs(x)
        assert float((ours(x) - truth).abs().max() / truth.abs().max()) < 1e-5


@pytest.mark.parametrize(
    "settings",
    [
        {"feature_map": layers.Hedgehog(num_heads=2, head_dim=4)},
        {"feature_map": layers.Taylor()},
        {"feature_map": layers.Dpfp(nu=2), "conv_size": 3},
        {"feature_map": layers.Identity()},
        {"feature_map": layers.Elu(), "normalize": False},
    ],
    ids=["hedgehog", "taylor", "dpfp", "identity", "unnormalised"],
)
def test_contract_of_linear_attention_through_feature_maps(settings):
    check_mixer_layer(_layer(mixers.LinearAttention, **settings))


def test_normalised_weights_sum_to_one():
    _, inside = _layer(mixers.LinearAttention)(torch.randn(2, 9, 12), return_inside=True)
    assert torch.allclose(inside.effective_matrix().sum(-1), torch.ones(2, 2, 9), atol=1e-5)


def test_feature_maps_are_what_their_papers_say():
    q, k = torch.randn(2, 1, 1, 1, 4).unbind()
    z = (q * k).sum() / 2
    assert torch.allclose((layers.Taylor()(q) * layers.Taylor()(k)).sum(), 1 + z + z**2 / 2)
    x = torch.tensor([1.0, -2.0, 3.0])
    parts = torch.tensor([1.0, 0.0, 3.0, 0.0, 2.0, 0.0])
    wanted = torch.stack([parts[i] * parts[i - j] for j in (1, 2) for i in range(6)])
    assert torch.equal(layers.Dpfp(nu=2)(x), wanted)
    with pytest.raises(InputError, match="nu of at least 1"):
        layers.Dpfp(nu=0)
    with pytest.raises(InputError, match="never negative"):
        mixers.LinearAttention(hidden_size=8, num_heads=2, feature_map=layers.Identity(), normalize=True)
    with pytest.raises(InputError, match=r"\[3, 4\], got \[2, 4\]"):
        layers.Hedgehog(num_heads=3, head_dim=4)(torch.zeros(1, 1, 2, 4))


def test_lightning_slopes_are_those_of_minimax():
    rate = (1 / 2 ** (8 / 4)) ** (torch.arange(4) + 1)
    assert torch.allclose(mixers.LightningAttention(hidden_size=8, num_heads=4).g_gamma, -rate)
    with pytest.raises(InputError, match="depth"):
        mixers.LightningAttention(hidden_size=8, num_heads=4, depth=1.0)


@pytest.mark.parametrize("groups", [1, 2])
def test_mamba2_is_that_of_transformers(groups):
    from transformers.models.mamba2 import Mamba2Config
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

    sizes = {"num_heads": 4, "head_dim": 6, "state_size": 5, "n_groups": groups}
    theirs = Mamba2Mixer(
        Mamba2Config(hidden_size=12, num_hidden_layers=1, conv_kernel=4, chunk_size=32, layer_norm_epsilon=1e-5, **sizes), 0
    )
    ours = mixers.Mamba2(hidden_size=12, num_heads=4, head_k_dim=5, head_v_dim=6, n_groups=groups)
    keys = 5 * groups
    order = torch.cat([torch.arange(24 + keys, 24 + 2 * keys), torch.arange(24, 24 + keys), torch.arange(24)])  # theirs: x, B, C
    with torch.no_grad():
        gate, streams, dt = theirs.in_proj.weight.split([24, 24 + 2 * keys, 4])
        ours.g_proj.weight.copy_(gate)
        ours.qkv_proj.weight.copy_(streams[order])
        ours.dt_proj.weight.copy_(dt)
        ours.conv.weight.copy_(theirs.conv1d.weight[order, 0].mT)
        ours.conv.bias.copy_(theirs.conv1d.bias[order])
        theirs.norm.weight.uniform_(0.5, 2)
        theirs.D.uniform_(0.5, 2)
        ours.norm.weight.copy_(theirs.norm.weight)
        ours.o_proj.weight.copy_(theirs.out_proj.weight)
        for name in ("A_log", "dt_bias", "D"):
            getattr(ours, name).copy_(getattr(theirs, name))
        x = torch.randn(2, 70, 12)
        truth = theirs.eval()(x)
        assert float((ours(x) - truth).abs().max() / truth.abs().max()) < 1e-5


def test_contract_of_mamba2_with_shared_heads():
    torch.manual_seed(0)
    check_mixer_layer(mixers.Mamba2(hidden_size=12, num_heads=4, head_k_dim=4, head_v_dim=6, n_groups=2, conv_bias=False))
    with pytest.raises(InputError, match="heads of keys"):
        mixers.Mamba2(hidden_size=12, num_heads=4, n_groups=3)


def test_retnet_sees_how_far_apart_tokens_are_and_not_where_they_stand():
    layer = _layer(mixers.RetNet).double()
    x = torch.randn(1, 9, 12).double()
    cache = mixers.MixerCache()
    layer(torch.zeros(1, 70000, 12).double(), cache=cache)  # zeros leave no state behind, only positions
    assert torch.allclose(layer(x, cache=cache), layer(x), rtol=0, atol=1e-9)
    assert cache.get(0, kind="RetNet", sequences=1).seen.tolist() == [70009]
    with pytest.raises(InputError, match="even head_k_dim"):
        mixers.RetNet(hidden_size=6, num_heads=2)


def test_checkpointed_gradients_are_the_same():
    layer = _layer(mixers.GatedDeltaNet)
    x = torch.randn(2, 40, 12, requires_grad=True)
    plain = torch.autograd.grad(layer(x).sum(), [x, *layer.parameters()])
    again = torch.autograd.grad(torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False).sum(), [x, *layer.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(plain, again, strict=True))


class _LooksAhead(mixers.DeltaNet):
    def inputs(self, x, q, k, v):
        return {name: part + 0 * x.mean() if name == "v" else part.roll(-1, 1) for name, part in super().inputs(x, q, k, v).items()}


class _ForgetsTheConvolution(mixers.DeltaNet):
    def forward(self, x, *, cache=None, **settings):
        if cache is not None and len(cache):
            held = cache.get(0, kind=type(self).__name__, sequences=len(x) if len(x) in {2, 3} else 2)
            cache.put(
                0, layers.LayerState(kind=held.kind, parts={**held.parts, "conv": torch.zeros_like(held.parts["conv"])}, seen=held.seen)
            )
        return super().forward(x, cache=cache, **settings)


class _IgnoresTheMask(mixers.DeltaNet):
    def forward(self, x, **settings):
        return super().forward(x, **{**settings, "attention_mask": None})


class _UnusedParameter(mixers.DeltaNet):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.spare = torch.nn.Parameter(torch.zeros(2))


@pytest.mark.parametrize(
    ("kind", "clause"),
    [
        (_LooksAhead, "causal"),
        (_ForgetsTheConvolution, "cut"),
        (_IgnoresTheMask, "padded left"),
        (_UnusedParameter, "no gradient"),
    ],
)
def test_the_contract_notices(kind, clause):
    with pytest.raises(AssertionError, match=clause):
        check_mixer_layer(_layer(kind))


def test_a_convolution_without_a_future():
    convolution = ShortConvolution(channels=2, conv_size=3)
    x = torch.randn(1, 6, 2)
    truth = torch.nn.functional.conv1d(torch.nn.functional.pad(x.mT, (2, 0)), convolution.weight.mT[:, None], groups=2).mT
    assert torch.allclose(convolution(x)[0], torch.nn.functional.silu(truth), atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"hidden_size": 10, "num_heads": 3}, "divide hidden_size"),
        ({"hidden_size": 8, "num_heads": 0}, "num_heads"),
        ({"hidden_size": 8, "num_heads": 2, "conv_size": 1}, "conv_size of 2"),
    ],
)
def test_refuses_sizes(settings, says):
    with pytest.raises(InputError, match=says):
        mixers.GatedDeltaNet(**settings)


def test_refuses_inputs():
    layer = mixers.GatedDeltaNet(hidden_size=8, num_heads=2)
    with pytest.raises(InputError, match=r"\[B, T, 8\], got \[1, 3, 9\]"):
        layer(torch.ones(1, 3, 9))
    with pytest.raises(InputError, match="got both"):
        layer(torch.ones(1, 3, 8), attention_mask=torch.ones(1, 3), cu_seqlens=[0, 3])
    cache = mixers.MixerCache()
    layer(torch.ones(2, 3, 8), cache=cache)
    with pytest.raises(InputError, match="rows from 0 to 1"):
        cache.reorder(torch.tensor([0, 2]))
    with pytest.raises(InputError, match="lower_bound"):
        mixers.HGRN2(hidden_size=8, num_heads=2, lower_bound=1.0)
    with pytest.raises(InputError, match="gate_logit_normalizer"):
        mixers.GLA(hidden_size=8, num_heads=2, gate_logit_normalizer=0.0)
    _, inside = layer(torch.ones(1, 4, 8), cu_seqlens=[0, 2, 4], return_inside=True)
    with pytest.raises(InputError, match="Run each alone"):
        inside.states()
