"""The exact cache: whom it keeps, the errors that decide it, the base that no cache is, and what it finds again."""

from itertools import pairwise

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.mixers.exact_cache import prediction_errors
from transect.testing import check_mixer_layer, mixer_inputs


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def _off(one, other):
    return float((one - other).abs().max().detach() / other.abs().max().detach())


def _errors_by_the_loop(given, state):
    k, v, g, beta = (given[name] for name in ("k", "v", "g", "beta"))
    found = []
    for t in range(k.shape[1]):
        state = state * g[:, t, :, None, None].exp()
        error = v[:, t] - (k[:, t, :, None] @ state)[:, :, 0]
        state = state + beta[:, t, :, None, None] * k[:, t, :, :, None] * error[:, :, None]
        found.append(error)
    return torch.stack(found, 1)


@pytest.mark.parametrize("form", ["chunk", "recurrent", "parallel", "naive", "auto"])
@pytest.mark.parametrize("strength", [None, 1.0, 2.0])
def test_errors_are_those_of_the_loop(form, strength):
    """At beta = 1 a unit key's own write hides its error entirely, so it cannot be computed from what is read afterwards."""
    given = {name: value for name, value in mixer_inputs(mixers.gated_delta_rule, batch=1, tokens=21).items() if name != "q"}
    if strength is not None:
        given["beta"] = torch.full_like(given["beta"], strength)
    given["g"][:, 5], given["g"][:, 13, 0] = -1e4, -torch.inf
    states = torch.randn(4, 2, 3, 4, dtype=torch.float64)
    whole = prediction_errors(**given, initial_state=states[:1], form=form, chunk_size=4)
    assert _off(whole, _errors_by_the_loop(given, states[:1])) < 1e-12
    bounds = [0, 6, 6, 14, 21]
    packed = prediction_errors(**given, initial_state=states, cu_seqlens=bounds, form=form, chunk_size=4)
    for n, (start, end) in enumerate(pairwise(bounds)):
        if end > start:
            alone = _errors_by_the_loop({name: part[:, start:end] for name, part in given.items()}, states[n : n + 1])
            assert _off(packed[:, start:end], alone) < 1e-12


@pytest.mark.parametrize("form", ["chunk", "recurrent", "parallel", "naive"])
def test_without_a_cache_it_is_its_base(form):
    given = mixer_inputs(mixers.exact_cache_delta_rule, tokens=21)
    out, state = mixers.exact_cache_delta_rule(**{**given, "cache_size": 0}, output_final_state=True, form=form)
    base = {name: given[name] for name in ("q", "k", "v", "g", "beta")}
    truth, last = mixers.gated_delta_rule(**base, output_final_state=True, form=form)
    assert state is not None
    assert last is not None
    assert torch.equal(out, truth)
    assert torch.equal(state[..., :4], last)


def test_a_cache_that_keeps_all_is_causal_attention_beside_the_state():
    given = mixer_inputs(mixers.exact_cache_delta_rule, tokens=21)
    base, _ = mixers.gated_delta_rule(**{name: given[name] for name in ("q", "k", "v", "g", "beta")})
    q, k, v = (given[name].transpose(1, 2) for name in ("read_q", "read_k", "v"))
    answer = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0).transpose(1, 2)
    for form in ("chunk", "recurrent"):
        out, _ = mixers.exact_cache_delta_rule(**{**given, "cache_size": 21}, form=form, chunk_size=4)
        assert _off(out, base + given["gate"][..., None] * answer) < 1e-12


@pytest.mark.parametrize("form", ["chunk", "recurrent", "parallel", "naive"])
def test_the_best_so_far_are_kept_the_earlier_of_equals_and_nothing_of_score_zero(form):
    scores = torch.tensor([0.0, 2.0, 1.0, 2.0, 2.0, 5.0, 0.0, 3.0])
    values = torch.eye(8)[None, :, None]
    zero = torch.zeros(1, 8, 1, 2)
    reading = {"read_q": zero, "read_k": zero, "score": scores[None, :, None], "gate": torch.ones(1, 8, 1), "cache_size": 2}
    out, state = mixers.exact_cache_delta_rule(
        zero, zero, values, zero[..., 0], zero[..., 0], **reading, output_final_state=True, form=form, chunk_size=4
    )
    kept = [set(row.nonzero().flatten().tolist()) for row in out[0, :, 0]]
    assert kept == [set(), {1}, {1, 2}, {1, 3}, {1, 3}, {1, 5}, {1, 5}, {5, 7}]
    assert state is not None
    assert state[0, 0, 2:, -1].tolist() == [5, 3]


def test_a_fact_is_found_after_the_state_lost_it():
    """200 later writes along the same keys wear the first one away; the cache, asked with its key, still answers."""
    draw = torch.Generator().manual_seed(0)
    k = torch.nn.functional.normalize(torch.randn(1, 201, 1, 8, generator=draw), dim=-1)
    v = torch.randn(1, 201, 1, 8, generator=draw)
    v[:, 0] *= 10
    k[:, -1] = k[:, 0]
    g, beta = torch.zeros(1, 201, 1), torch.full((1, 201, 1), 0.9)
    beta[:, -1] = 0
    score = beta * prediction_errors(k, v, g, beta).norm(dim=-1)
    reading = {"read_q": 30 * k, "read_k": k, "score": score, "gate": torch.ones(1, 201, 1), "cache_size": 4}
    state_alone, _ = mixers.gated_delta_rule(k, k, v, g, beta, scale=1.0)
    found, _ = mixers.exact_cache_delta_rule(k, k, v, g, beta, **reading, scale=1.0)
    assert _off(state_alone[:, -1], v[:, 0]) > 0.5
    assert _off((found - state_alone)[:, -1], v[:, 0]) < 1e-2


def test_a_layer_whose_cache_is_shut_is_its_base():
    layer = mixers.ExactCacheDeltaNet(hidden_size=12, num_heads=2, cache_size=0)
    plain = mixers.GatedDeltaNet(hidden_size=12, num_heads=2)
    plain.load_state_dict(layer.base.state_dict())
    x = torch.randn(2, 40, 12)
    assert torch.equal(layer(x), plain(x))


def test_scores_of_a_layer_are_what_is_committed():
    layer = mixers.ExactCacheDeltaNet(hidden_size=12, num_heads=2, cache_size=3).double()
    _, inside = layer(torch.randn(2, 40, 12, dtype=torch.float64), return_inside=True)
    errors = _errors_by_the_loop(inside.inputs, torch.zeros(2, 2, 6, 6, dtype=torch.float64))
    assert _off(inside.inputs["score"], inside.inputs["beta"] * errors.norm(dim=-1)) < 1e-12


@pytest.mark.parametrize("cache_size", [2, 5])
def test_contract_where_tokens_are_driven_out(cache_size):
    check_mixer_layer(mixers.ExactCacheDeltaNet(hidden_size=12, num_heads=2, cache_size=cache_size, allow_neg_eigval=True))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"cache_size": -1}, "cache_size of 0 or more, got -1"),
        ({"score": torch.zeros(2, 11, 1)}, "expected score of shape"),
        ({"gate": torch.zeros(2, 11, 2, 1)}, "expected gate of shape"),
        ({"read_k": torch.zeros(2, 11, 2, 4)}, "expected read_k of shape"),
        ({"initial_state": torch.zeros(2, 2, 3, 4)}, r"expected initial_state of shape \[2, 2, 6, 8\]"),
        ({"form": "chunks"}, "did you mean 'chunk'"),
        ({"chunk_size": 48}, "power of two"),
    ],
)
def test_refuses(change, says):
    with pytest.raises(InputError, match=says):
        mixers.exact_cache_delta_rule(**{**mixer_inputs(mixers.exact_cache_delta_rule), **change})


def test_refuses_a_cache_of_less_than_nothing():
    with pytest.raises(InputError, match="cache_size of 0 or more"):
        mixers.ExactCacheDeltaNet(hidden_size=8, num_heads=2, cache_size=-1)
