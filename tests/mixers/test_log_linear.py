"""Log-linear attention: the mask of its levels, its base where all weights are one, and texts that it refuses."""

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.mixers.algebra import recurrence
from transect.mixers.layers.log_linear_layers import LogLinearLayer
from transect.mixers.levels import bits
from transect.mixers.parallel import effective_matrix
from transect.testing import check_mixer_layer, mixer_inputs

OPS = [
    (mixers.log_linear_simple_gla, mixers.simple_gla, ("q", "k", "v", "g")),
    (mixers.log_linear_gated_delta_rule, mixers.gated_delta_rule, ("q", "k", "v", "g", "beta")),
]


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def _off(one, other):
    return float((one - other).abs().max().detach() / other.abs().max().detach())


@pytest.mark.parametrize(("op", "base", "names"), OPS)
@pytest.mark.parametrize("form", ["chunk", "recurrent", "parallel", "naive"])
def test_with_weights_of_one_it_is_its_base(op, base, names, form):
    given = {name: value for name, value in mixer_inputs(op, tokens=21).items() if name != "positions"}
    given["level_weights"] = torch.ones_like(given["level_weights"])
    out, levels = op(**given, output_final_state=True, form=form, chunk_size=8)
    truth, state = base(**{name: given[name] for name in names}, output_final_state=True, form="naive")
    assert _off(out, truth) < 1e-12
    assert _off(levels.sum(2), state) < 1e-12


@pytest.mark.parametrize(("op", "names"), [(op, names) for op, _, names in OPS])
def test_it_is_the_matrix_of_its_base_under_a_mask(op, names):
    given = mixer_inputs(op, tokens=21)
    matrix = effective_matrix(recurrence(**{name: given[name] for name in names}))
    places = torch.arange(21)
    levels = bits(places[:, None] ^ places)
    mask = torch.stack([given["level_weights"][:, t, :, levels[t]] for t in range(21)], 2)
    truth = ((matrix * mask) @ given["v"].transpose(1, 2)).transpose(1, 2)
    assert _off(op(**given)[0], truth) < 1e-12


def test_levels_are_the_blocks_of_a_fenwick_tree():
    """Before token 13 = 0b1101 the past is 8 tokens, 4 tokens and 1, and each level reads its own."""
    one = torch.ones(1, 14, 1, 1)
    counts = []
    for level in range(5):
        weights = torch.eye(5)[level].expand(1, 14, 1, 5)
        counts.append(int(mixers.log_linear_simple_gla(one, one, one, 0 * one[..., 0], weights)[0][0, 13]))
    assert counts == [1, 1, 0, 4, 8]


@pytest.mark.parametrize("op", [op for op, *_ in OPS])
def test_packed_texts_go_on_from_where_each_stands(op):
    given = mixer_inputs(op, batch=1, tokens=25)
    given["positions"][0] = torch.tensor([*range(9), *range(16)])
    apart = []
    for part in (slice(0, 9), slice(9, 25)):
        apart.append(op(**{name: value[:, part] for name, value in given.items()}, form="naive"))
    first, second = [*range(6), *range(9, 14)], [*range(6, 9), *range(14, 25)]
    for form in ("chunk", "recurrent", "parallel"):
        settings = {"form": form, "chunk_size": 4, "output_final_state": True}
        one, levels = op(**{name: value[:, first] for name, value in given.items()}, cu_seqlens=[0, 6, 11], **settings)
        two, _ = op(**{name: value[:, second] for name, value in given.items()}, cu_seqlens=[0, 3, 14], initial_state=levels, **settings)
        found = torch.empty_like(torch.cat([one, two], 1))
        found[:, first], found[:, second] = one, two
        assert _off(found, torch.cat([out for out, _ in apart], 1)) < 1e-12


def test_a_long_text_at_the_width_of_real_heads():
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 300, 2, 32, generator=draw) for _ in range(3))
    g, beta = -torch.rand(1, 300, 2, generator=draw), torch.rand(1, 300, 2, generator=draw)
    given = (q, torch.nn.functional.normalize(k, dim=-1), v, g, beta, torch.rand(1, 300, 2, 10, generator=draw))
    truth, _ = mixers.log_linear_gated_delta_rule(*(part.double() for part in given), form="parallel")
    assert _off(mixers.log_linear_gated_delta_rule(*given)[0].double(), truth) < 1e-5


@pytest.mark.parametrize(("kind", "base"), [(mixers.LogLinearMamba2, mixers.Mamba2), (mixers.LogLinearGatedDeltaNet, mixers.GatedDeltaNet)])
def test_a_layer_with_weights_of_one_is_its_base(kind, base):
    sizes = {"hidden_size": 12, "num_heads": 2, "head_k_dim": 4}
    layer, plain = kind(**sizes).double(), base(**sizes).double()
    plain.load_state_dict(layer.base.state_dict())
    with torch.no_grad():
        layer.level_proj.weight.zero_()
        x = torch.randn(2, 40, 12, dtype=torch.float64)
        assert _off(layer(x), plain(x)) < 1e-7  # the bias is log(e - 1) in 32 bits
        layer.level_proj.weight.normal_()
        assert _off(layer(x), plain(x)) > 1e-3


def test_contract_of_settings():
    check_mixer_layer(
        mixers.LogLinearMamba2(hidden_size=12, num_heads=4, head_k_dim=4, head_v_dim=6, n_groups=2, conv_bias=False, max_levels=5)
    )
    check_mixer_layer(mixers.LogLinearGatedDeltaNet(hidden_size=12, num_heads=2, allow_neg_eigval=True, max_levels=5))


@pytest.mark.parametrize("kind", [mixers.LogLinearMamba2, mixers.LogLinearGatedDeltaNet])
def test_a_text_longer_than_the_levels_hold_is_refused(kind):
    layer: LogLinearLayer = kind(hidden_size=8, num_heads=2, max_levels=3)
    cache = mixers.MixerCache()
    layer(torch.randn(1, 8, 8), cache=cache)
    with pytest.raises(InputError, match=r"at most 2 \*\* 3 = 8 tokens with 4 levels, got one of 9"):
        layer(torch.randn(1, 1, 8), cache=cache)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"positions": torch.arange(11)[None].expand(2, 11) * 2}, "count up by one"),
        ({"positions": torch.arange(11)[None].expand(2, 11) - 1}, "from 0 or more"),
        ({"positions": torch.zeros(2, 11)}, "of integers"),
        ({"positions": None, "initial_state": torch.zeros(2, 2, 6, 3, 4)}, "expected positions with"),
        ({"initial_state": torch.zeros(2, 2, 3, 4)}, "expected initial_state of shape"),
        ({"level_weights": torch.zeros(2, 11, 6)}, "expected level_weights of shape"),
        ({"level_weights": torch.zeros(2, 11, 2, 4)}, "at most 2 .* 3 = 8 tokens"),
        ({"form": "chunks"}, "did you mean 'chunk'"),
        ({"chunk_size": 48}, "power of two"),
    ],
)
def test_refuses(change, says):
    with pytest.raises(InputError, match=says):
        mixers.log_linear_gated_delta_rule(**{**mixer_inputs(mixers.log_linear_gated_delta_rule), **change})


def test_refuses_levels():
    with pytest.raises(InputError, match="max_levels from 0 to 40"):
        mixers.LogLinearMamba2(hidden_size=8, num_heads=2, max_levels=41)
