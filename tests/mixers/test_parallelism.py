"""Four ranks on one machine give what one gives: outputs, states, gradients; and what they send does not depend on the length."""

import datetime
import os
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

from transect import mixers
from transect.errors import InputError
from transect.mixers.parallelism import Traffic, gathered, gathered_attention, ring
from transect.testing import mixer_inputs

RANKS = 4
OPS = ["linear_attention", "simple_gla", "gla", "hgrn2", "retention", "delta_rule", "gated_delta_rule", "kda", "delta_product"]
PER_TOKEN = ("q", "k", "v", "g", "beta")


def _shard(name, value, rank, tokens, keys):
    if name not in PER_TOKEN:
        return value
    each = keys if name in {"k", "v", "beta"} else 1
    cuts = [0, tokens // 8, tokens // 2, tokens // 2 + 1, tokens]  # shards of all lengths
    return value[:, cuts[rank] * each : cuts[rank + 1] * each]


def _given(name, tokens):
    op = getattr(mixers, name)
    return op, mixer_inputs(op, tokens=tokens)


def _results(run, given, state, weight):
    """Outputs, state, and gradients of a fixed function of the outputs and of the last state."""
    leaves = {name: value.clone().requires_grad_() for name, value in given.items() if isinstance(value, torch.Tensor)}
    start = state.clone().requires_grad_()
    out, final = run({**given, **leaves}, start)
    loss = (out * weight).sum() + (0 if final is None else final.sin().sum())
    grads = torch.autograd.grad(loss, [*leaves.values(), start], allow_unused=True)
    return out.detach(), dict(zip([*leaves, "initial_state"], grads, strict=True)), None if final is None else final.detach()


def _truth(name, tokens):
    op, given = _given(name, tokens)
    shape = op(**given, output_final_state=True)[1].shape
    draw = torch.Generator().manual_seed(1)
    state = torch.randn(shape, generator=draw, dtype=torch.float64)
    out = op(**given)[0]
    weight = torch.randn(out.shape, generator=draw, dtype=torch.float64)
    return (
        op,
        given,
        state,
        weight,
        _results(lambda held, start: op(**held, initial_state=start, output_final_state=True), given, state, weight),
    )


def _check(rank, name, method, tokens):
    op, given, state, weight, (out, grads, final) = _truth(name, tokens)
    keys = given.get("num_householder", 1)
    local = {part: _shard(part, value, rank, tokens, keys) for part, value in given.items()}
    traffic = Traffic()
    last = rank == RANKS - 1

    def run(held, start):
        more = {"state_shape": tuple(state.shape)} if method is ring else {}
        o, after = method(op, **held, **more, initial_state=start, output_final_state=True, traffic=traffic)
        return o, after if last else None

    found, mine, after = _results(run, local, state, _shard("q", weight, rank, tokens, 1))
    near = {"rtol": 0, "atol": 1e-12}
    assert torch.allclose(found, _shard("q", out, rank, tokens, 1), **near), (name, method.__name__, "outputs")
    if last:
        assert torch.allclose(after, final, **near), (name, method.__name__, "state")
    for part, grad in grads.items():
        if part == "initial_state":
            whole = torch.zeros_like(state) if mine[part] is None else mine[part].clone()
            dist.all_reduce(whole)
            assert torch.allclose(whole, grad, **near), (name, method.__name__, part)
        elif part in PER_TOKEN:
            assert torch.allclose(mine[part], _shard(part, grad, rank, tokens, keys), **near), (name, method.__name__, part)
        else:  # every shard has its share of what all tokens use
            whole = mine[part].clone()
            dist.all_reduce(whole)
            assert torch.allclose(whole, grad, **near), (name, method.__name__, part)
    return traffic


def _attention(rank):
    draw = torch.Generator().manual_seed(2)
    q, k, v, weight = (torch.randn(2, 16, heads, 4, generator=draw, dtype=torch.float64) for heads in (4, 2, 2, 4))
    for window in (None, 5):
        leaves = [part.clone().requires_grad_() for part in (q, k, v)]
        out = mixers.softmax_attention(*leaves, window=window)
        grads = torch.autograd.grad((out * weight).sum(), leaves)
        cut = slice(4 * rank, 4 * rank + 4)
        mine = [part[:, cut].clone().requires_grad_() for part in (q, k, v)]
        found = gathered_attention(*mine, window=window)
        assert torch.allclose(found, out[:, cut], rtol=0, atol=1e-12)
        for one, other in zip(torch.autograd.grad((found * weight[:, cut]).sum(), mine), grads, strict=True):
            assert torch.allclose(one, other[:, cut], rtol=0, atol=1e-12)


def _infinities(rank):
    """What is infinite in the third shard does not reach those before it, and is there from then on."""
    draw = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(2, 16, 2, 4, generator=draw, dtype=torch.float64) for _ in range(3))
    cut = slice(4 * rank, 4 * rank + 4)
    clean = mixers.gla(q, k, v, -torch.ones_like(k))[0], mixers.softmax_attention(q, k, v)
    for name in ("k", "v"):
        given = {"q": q, "k": k.clone(), "v": v.clone()}
        given[name][:, 9] = torch.inf
        mine = {part: value[:, cut] for part, value in given.items()}
        found = gathered(mixers.gla, **mine, g=-torch.ones_like(mine["k"]))[0], gathered_attention(**mine)
        for whole, part in zip(clean, found, strict=True):
            if rank < 2:
                assert torch.allclose(part, whole[:, cut], rtol=0, atol=1e-12)
            else:  # an infinite key may be looked away from, an infinite value not
                assert not (part[:, 1:].isfinite().any() if name == "v" else part.isfinite().all())


def _disagreements(rank):
    """Sizes that differ are named on every rank, also where as many numbers would have been sent."""
    odd = rank == 2
    for sizes, says in (
        ((2, 4, 3 if odd else 2, 4, 4), "H"),
        ((3 if odd else 2, 4, 2, 4, 4), "B"),
        ((2, 4, 4 if odd else 2, 2 if odd else 4, 4), "H"),
        ((2, 4, 2, 4, 5 if odd else 4), "V"),
    ):
        batch, tokens, heads, keys, values = sizes
        q, k, v = torch.ones(batch, tokens, heads, keys), torch.ones(batch, tokens, heads, keys), torch.ones(batch, tokens, heads, values)
        with pytest.raises(InputError, match=rf"agree in B, H, K, V.* got {says} = \d here and \d on rank {0 if odd else 2}"):
            gathered(mixers.linear_attention, q=q, k=k, v=v)
        with pytest.raises(InputError, match=rf"agree in B, T, G, K, V.* got {says.replace('H', 'G')} = \d here"):
            gathered_attention(q, k, v)
    one = torch.ones(1, 5 if odd else 4, 1, 2)
    with pytest.raises(InputError, match="got T = "):
        gathered_attention(one, one, one)
    wide = torch.ones(1, 4, 1, 2, dtype=torch.float64 if odd else torch.float32)
    with pytest.raises(InputError, match="got bytes of a number = "):
        gathered(mixers.linear_attention, q=wide, k=wide, v=wide)


def _rank(rank, where):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{where}", rank=rank, world_size=RANKS, timeout=datetime.timedelta(seconds=60))
    for name in OPS:
        for method in (gathered, ring):
            short = _check(rank, name, method, 16)
            if name in {"gla", "gated_delta_rule"}:
                assert short == _check(rank, name, method, 48), (name, method.__name__, "what is sent depends on the length")
            if method is gathered:
                assert short.collectives == 2  # one forwards, one backwards
                assert short.checks == 1
            else:
                assert short.messages == (rank > 0) + (rank < RANKS - 1)
    _attention(rank)
    _infinities(rank)
    _disagreements(rank)
    with pytest.raises(InputError, match="cu_seqlens"):
        gathered(mixers.gla, v=torch.ones(1, 2, 1, 1), cu_seqlens=[0, 2])
    dist.destroy_process_group()


def test_four_ranks_give_what_one_gives(tmp_path):
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(tmp_path / "meet")],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for rank in range(RANKS)
    ]
    said = [process.communicate(timeout=300)[1] for process in ranks]
    assert [process.returncode for process in ranks] == [0] * RANKS, "\n".join(said)


def test_without_a_group_it_says_so():
    one = torch.ones(1, 2, 1, 1)
    for run in (
        lambda: gathered(mixers.linear_attention, q=one, k=one, v=one),
        lambda: ring(mixers.linear_attention, q=one, k=one, v=one, state_shape=(1, 1, 1, 1)),
        lambda: gathered_attention(one, one, one),
    ):
        with pytest.raises(InputError, match="init_process_group"):
            run()


if __name__ == "__main__":  # one of the ranks
    _rank(int(sys.argv[1]), sys.argv[2])
