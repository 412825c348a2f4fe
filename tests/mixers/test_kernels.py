"""Which problems go to a GPU's kernels, and that those get what they expect."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from transect import mixers
from transect.mixers import forms, kernels
from transect.mixers.algebra import recurrence
from transect.mixers.kernels import kernel_for, named_kernel, run_kernel
from transect.testing import mixer_inputs

NAMES = {
    "linear_attention": ("simple_gla", "chunk_simple_gla"),
    "simple_gla": ("simple_gla", "chunk_simple_gla"),
    "gla": ("gla", "chunk_gla"),
    "delta_rule": ("delta_rule", "chunk_delta_rule"),
    "gated_delta_rule": ("gated_delta_rule", "chunk_gated_delta_rule"),
    "kda": ("kda", "chunk_kda"),
    "delta_product": ("gated_delta_product", "chunk_gated_delta_product"),
}


def _stand_in(calls):
    """A function with the conventions of the library's kernels, computed by the definition."""

    def kernel(*, q, k, v, scale, initial_state, output_final_state, g=None, beta=None, num_householder=1, cu_seqlens=None):
        assert output_final_state
        assert initial_state.dtype == torch.float32
        assert q.dtype == k.dtype == v.dtype == torch.bfloat16
        assert cu_seqlens is None or cu_seqlens.dtype == torch.long
        calls.append({"g": g, "beta": beta, "num_householder": num_householder, "cu_seqlens": cu_seqlens})
        per_channel = g is not None and g.ndim == 4
        problem = recurrence(
            q,
            k,
            v,
            g=g,
            beta=beta,
            per_channel=per_channel,
            rank=num_householder,
            scale=scale,
            initial_state=initial_state,
            cu_seqlens=cu_seqlens,
        )
        return forms.evaluate(problem, form="naive", chunk_size=16, output_final_state=True, dtype=v.dtype)

    return kernel


@pytest.fixture
def library(monkeypatch):
    """A stand-in for flash-linear-attention; gives what its kernels were called with."""
    calls = []
    root = ModuleType("fla")
    root.__spec__ = ModuleSpec("fla", None)
    monkeypatch.setitem(sys.modules, "fla", root)
    monkeypatch.setitem(sys.modules, "fla.ops", ModuleType("fla.ops"))
    for module, name in NAMES.values():
        made = ModuleType(f"fla.ops.{module}")
        kernel = _stand_in(calls)
        kernel.__name__ = name
        setattr(made, name, kernel)
        monkeypatch.setitem(sys.modules, made.__name__, made)
    return calls


def _inputs(op, *, batch=2) -> dict[str, Any]:
    given = mixer_inputs(op, batch=batch, tokens=11)
    return {name: part.bfloat16() if isinstance(part, torch.Tensor) else part for name, part in given.items()}


def _problem(name, **changes):
    given = _inputs(getattr(mixers, name), batch=changes.pop("batch", 2))
    rank = given.pop("num_householder", 1)
    given |= changes
    return recurrence(
        given.pop("q"), given.pop("k"), given.pop("v"), per_channel=name in {"gla", "kda"}, rank=rank, scale=0.5, **given
    ), given


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_transition_goes_to_its_kernel_and_comes_back_the_same(name, library):
    problem, _ = _problem(name)
    kernel = named_kernel(problem)
    assert kernel is not None
    assert kernel.__name__ == NAMES[name][1]
    out, state = run_kernel(kernel, problem, torch.bfloat16)
    ours, last = forms.evaluate(problem, form="chunk", chunk_size=16, output_final_state=True, dtype=torch.bfloat16)
    assert len(library) == 1
    torch.testing.assert_close(out.float(), ours.float(), rtol=0, atol=0.02)
    torch.testing.assert_close(state, last, rtol=0, atol=0.02)


@pytest.mark.parametrize("name", ["kda", "delta_product"])
def test_packed_bounds_come_along(name, library):
    problem, _ = _problem(name, batch=1, cu_seqlens=[0, 4, 11])
    kernel = named_kernel(problem)
    assert kernel is not None
    out, state = run_kernel(kernel, problem, torch.bfloat16)
    ours, last = forms.evaluate(problem, form="chunk", chunk_size=16, output_final_state=True, dtype=torch.bfloat16)
    assert library[0]["cu_seqlens"].tolist() == [0, 4, 11]
    torch.testing.assert_close(out.float(), ours.float(), rtol=0, atol=0.02)
    torch.testing.assert_close(state, last, rtol=0, atol=0.02)


def _on_a_gpu(**changes) -> Any:
    return SimpleNamespace(**{"q": SimpleNamespace(is_cuda=True, shape=(1, 64, 2, 64)), "g": None, "beta": None, "rank": 1, **changes})


def test_kernels_are_for_16_bits_on_a_gpu(library, monkeypatch):
    assert kernel_for(_on_a_gpu(), torch.bfloat16) is not None
    assert kernel_for(_on_a_gpu(), torch.float16) is not None
    assert kernel_for(_on_a_gpu(), torch.float32) is None
    assert kernel_for(_on_a_gpu(), torch.float64) is None
    assert kernel_for(_on_a_gpu(q=SimpleNamespace(is_cuda=False, shape=(1, 64, 2, 64))), torch.bfloat16) is None
    assert kernel_for(_on_a_gpu(q=SimpleNamespace(is_cuda=True, shape=(1, 64, 2, 512))), torch.bfloat16) is None
    assert kernel_for(_on_a_gpu(g=torch.tensor([[[[-1.0]]]])), torch.bfloat16) is not None
    for hard in (-1e4, -torch.inf):
        assert kernel_for(_on_a_gpu(g=torch.tensor([[[[-1.0], [hard]]]])), torch.bfloat16) is None
    assert kernel_for(_on_a_gpu(rank=2), torch.bfloat16) is None  # two additive keys a token
    assert (
        kernel_for(_on_a_gpu(rank=2, beta=torch.ones(1), g=torch.zeros(1, 1, 1, 4)), torch.bfloat16) is None
    )  # products with a decay per channel
    monkeypatch.delattr(sys.modules["fla.ops.simple_gla"], "chunk_simple_gla")
    assert kernel_for(_on_a_gpu(), torch.bfloat16) is None  # a version without it
    monkeypatch.setitem(sys.modules, "fla", None)
    monkeypatch.setattr(kernels.importlib.util, "find_spec", lambda name: None)  # noqa: ARG005
    assert kernel_for(_on_a_gpu(), torch.bfloat16) is None


def test_rwkv7_has_a_kernel_of_its_own(monkeypatch):
    calls = []

    def kernel(*, r, w, k, v, a, b, scale, initial_state, output_final_state, cu_seqlens=None):
        assert output_final_state
        assert r.dtype == k.dtype == v.dtype == a.dtype == b.dtype == torch.bfloat16
        assert w.dtype == initial_state.dtype == torch.float32
        calls.append(None if cu_seqlens is None else cu_seqlens.tolist())
        settings = {"scale": scale, "initial_state": initial_state, "cu_seqlens": cu_seqlens, "output_final_state": True}
        return mixers.rwkv7(r, w, k, v, a, b, **settings, form="naive")

    made = ModuleType("fla.ops.rwkv7")
    made.chunk_rwkv7 = kernel
    monkeypatch.setitem(sys.modules, "fla.ops", ModuleType("fla.ops"))
    monkeypatch.setitem(sys.modules, "fla.ops.rwkv7", made)
    monkeypatch.setattr(kernels, "_fits", lambda problem, dtype: dtype == torch.bfloat16)  # noqa: ARG005
    for batch, bounds in ((2, None), (1, [0, 4, 11])):
        given = _inputs(mixers.rwkv7, batch=batch) | {"scale": 0.5, "cu_seqlens": bounds, "output_final_state": True}
        (out, state), (ours, last) = mixers.rwkv7(**given), mixers.rwkv7(**given, form="chunk")
        assert calls.pop() == bounds
        torch.testing.assert_close(out.float(), ours.float(), rtol=0, atol=0.02)
        torch.testing.assert_close(state, last, rtol=0, atol=0.02)
    mixers.rwkv7(**{name: part.float() if isinstance(part, torch.Tensor) else part for name, part in given.items()})
    assert not calls


def test_auto_takes_the_kernel_and_chunk_does_not(monkeypatch):
    taken = []

    def kernel(**given):
        taken.append(given)
        return torch.zeros_like(given["v"]), torch.zeros_like(given["initial_state"])

    given = _inputs(mixers.kda)
    monkeypatch.setattr(forms, "kernel_for", lambda problem, dtype: kernel)  # noqa: ARG005
    assert mixers.kda(**given)[0].abs().max() == 0
    assert mixers.kda(**given, form="chunk")[0].abs().max() > 0
    assert mixers.kda(**{name: part[:, :1] for name, part in given.items()})[0].abs().max() > 0  # one token is the loop's
    assert len(taken) == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", [*NAMES, "rwkv7"])
def test_the_real_kernels_agree(name):
    pytest.importorskip("fla")
    op = getattr(mixers, name)
    given = {key: part.cuda() if isinstance(part, torch.Tensor) else part for key, part in _inputs(op).items()}
    given["output_final_state"] = True
    (out, state), (ours, last) = op(**given), op(**given, form="chunk")
    assert float((out - ours).abs().max() / ours.abs().max()) < 0.02
    assert float((state - last).abs().max() / last.abs().max()) < 0.02
