"""Speed and memory of the sequence ops against transformers' CPU code, against their own recurrence, and in the length.

    python benchmarks/mixers.py --quick
    python benchmarks/mixers.py

Ratios are of medians over rounds in which both sides run in turn, so that a busy machine slows both; float32, heads of width 64.
Memory is the growth of the peak of a fresh process over a warm start. Every line says ok or MISSED.
"""

import argparse
import math
import shutil
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional

from transect import mixers
from transect.mixers.models.kinds import layer_kinds, make

Work = Callable[[], object]


def inputs(tokens: int, *, heads: int = 4, width: int = 64, per_channel: bool = False, keys: int = 1) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, tokens * each, heads, width, generator=draw) for each in (1, keys, keys))
    shape = (1, tokens, heads, width) if per_channel else (1, tokens, heads)
    g = -0.1 * torch.rand(shape, generator=draw)
    return {"q": q, "k": functional.normalize(k, dim=-1), "v": v, "g": g, "beta": torch.rand(1, tokens * keys, heads, generator=draw)}


def mamba(tokens: int, *, heads: int = 8, width: int = 64, states: int = 128) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    return {
        "x": torch.randn(1, tokens, heads, width, generator=draw),
        "dt": 0.1 * torch.rand(1, tokens, heads, generator=draw),
        "A": -torch.rand(heads, generator=draw),
        "B": torch.randn(1, tokens, 1, states, generator=draw),
        "C": torch.randn(1, tokens, 1, states, generator=draw),
    }


def work(op: Callable, given: dict[str, torch.Tensor], *, training: bool) -> Work:
    """One forward pass, or one with its backward pass."""
    if not training:

        def forward() -> object:
            with torch.no_grad():
                return op(*given.values())

        return forward
    leaves = [value.clone().requires_grad_() for value in given.values()]

    def both() -> object:
        out = op(*leaves)
        out = out[0] if isinstance(out, tuple) else out
        return torch.autograd.grad(out.sum(), leaves)

    return both


def seconds(works: dict[str, Work], rounds: int) -> dict[str, float]:
    """Medians over rounds in which all take their turn; a turn is two runs, and the second counts.

    The first finds caches full of the other's data and its own memory given back to the system, by whoever freed hundreds of megabytes last:
    nothing that a loop over one of them would meet.
    """
    spent: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, one in works.items():
            one()
            start = time.perf_counter()
            one()
            spent[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in spent.items()}


def verdict(line: str, found: float, wanted: float, *, least: bool = True) -> None:
    fine = found >= wanted if least else found <= wanted
    print(f"{'ok    ' if fine else 'MISSED'}  {line}: {found:.2f}, wanted {'at least' if least else 'at most'} {wanted:g}", flush=True)


def theirs() -> dict[str, Callable]:
    from transformers.models.kimi_linear.modeling_kimi_linear import chunk_kimi_delta_attention
    from transformers.models.mamba2.modeling_mamba2 import mamba2_chunk_scan
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule

    return {
        "gated delta rule": torch_chunk_gated_delta_rule,
        "kda": chunk_kimi_delta_attention,
        "ssd": lambda *given: mamba2_chunk_scan(*given, 256),  # its configuration's chunk
    }


def against_transformers(*, quick: bool) -> None:
    peers = theirs()
    cases = [
        ("gated delta rule", mixers.gated_delta_rule, inputs(1024), 1024, 1.5),
        ("gated delta rule", mixers.gated_delta_rule, inputs(8192), 8192, 2.0),
        ("kda", mixers.kda, inputs(1024, per_channel=True), 1024, 15.0),
        ("ssd", mixers.ssd, mamba(4096), 4096, 2.0),
    ]
    for name, op, given, tokens, wanted in cases:
        for training in (False, True):
            rounds = 5 if quick or name == "kda" or tokens == 8192 else 15
            found = seconds(
                {"ours": work(op, given, training=training), "theirs": work(peers[name], given, training=training)},
                max(rounds // (2 if training else 1), 3),
            )
            what = "forward and backward" if training else "forward"
            spent = f"{1e3 * found['ours']:.0f} ms against {1e3 * found['theirs']:.0f} ms"
            verdict(f"{name}, T {tokens}, {what}, times faster than transformers ({spent})", found["theirs"] / found["ours"], wanted)


def against_the_recurrence(*, quick: bool) -> None:
    gates = ("q", "k", "v", "g")
    plain, channel, two = inputs(2048), inputs(2048, per_channel=True), inputs(2048, keys=2)
    cases: dict[str, tuple[Callable, dict[str, torch.Tensor]]] = {
        "gla": (mixers.gla, {name: channel[name] for name in gates}),
        "hgrn2": (mixers.hgrn2, {name: channel[name] for name in ("q", "g", "v")}),
        "delta rule": (mixers.delta_rule, {name: plain[name] for name in ("q", "k", "v", "beta")}),
        "retention": (mixers.retention, {name: plain[name] for name in ("q", "k", "v")}),
        "delta product, 2 keys": (lambda *given, form="chunk": mixers.delta_product(*given, num_householder=2, form=form), two),
    }
    for name, (op, given) in cases.items():
        loop = lambda *parts, op=op: op(*parts, form="recurrent")  # noqa: E731 - one line of a table
        found = seconds({"ours": work(op, given, training=True), "loop": work(loop, given, training=True)}, 3 if quick else 5)
        verdict(f"{name}, T 2048, training, times faster than its recurrence", found["loop"] / found["ours"], 4)


def in_the_length(*, quick: bool) -> None:
    lengths = (1024, 4096, 16384) if quick else (1024, 4096, 16384, 65536)
    for name, op, per_channel in (("gated delta rule", mixers.gated_delta_rule, False), ("kda", mixers.kda, True)):
        works = {str(tokens): work(op, inputs(tokens, per_channel=per_channel), training=True) for tokens in lengths}
        found = seconds(works, 3)
        logs = [math.log(tokens) for tokens in lengths], [math.log(found[str(tokens)]) for tokens in lengths]
        slope = statistics.linear_regression(*logs).slope
        each = ", ".join(f"{1e6 * found[str(tokens)] / tokens:.0f}" for tokens in lengths)
        verdict(
            f"{name}, exponent of the training time in T from 1k to {lengths[-1] // 1024}k ({each} us a token)", slope, 1.05, least=False
        )


def against_softmax(*, quick: bool) -> None:
    """From which length on a layer trains faster than softmax attention (SDPA) of the same width, hidden size 256, 4 heads; for every layer there is."""
    lengths = (256, 512, 1024) if quick else (256, 512, 1024, 2048, 4096)
    softmax = mixers.Attention(hidden_size=256, num_heads=4)
    for kind in sorted(set(layer_kinds().values()) - {mixers.Attention}, key=lambda kind: kind.__name__):
        layer, ratios = make(kind, {}, hidden_size=256, num_heads=4), []
        for tokens in lengths:
            x = torch.randn(1, tokens, 256, generator=torch.Generator().manual_seed(0)).requires_grad_()

            def trained(layer: torch.nn.Module, x: torch.Tensor = x) -> object:
                return torch.autograd.grad(layer(x).sum(), [x, *layer.parameters()], allow_unused=True)

            found = seconds({"ours": lambda layer=layer: trained(layer), "softmax": lambda: trained(softmax)}, 3)
            ratios.append(found["softmax"] / found["ours"])
        slow = [tokens for tokens, ratio in zip(lengths, ratios, strict=True) if ratio <= 1]
        later = [tokens for tokens in lengths if tokens > max(slow, default=0)]
        since = f"from T {later[0]} on" if later else f"from above T {lengths[-1]}"
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"        {kind.__name__}, training, faster than softmax attention {since} (times faster at {lengths}: {each})", flush=True)


def state_products(state: torch.Tensor, *, reads_what_it_erases: bool) -> Work:
    """The matrix products of a step with the state ``[1, H, K, V]`` itself: what is written, what is read, and what a delta rule erases."""
    s = state[0].clone()
    key, value = torch.randn(len(s), s.shape[1], 1), torch.randn(len(s), 1, s.shape[2])

    def multiply() -> object:
        erased = torch.bmm(key.mT, s) if reads_what_it_erases else value
        return torch.bmm(key.mT, torch.baddbmm(s, key, erased))

    return multiply


def compiled(layer: torch.nn.Module, x: torch.Tensor, cache: mixers.MixerCache) -> Work:
    """A step as a decoding loop can have it: compiled, with a C++ wrapper."""
    fast = torch.compile(layer, options={"cpp_wrapper": True})
    expected, given = layer(x, cache=cache.snapshot()), cache.snapshot()
    if not torch.allclose(fast(x, cache=given), expected, rtol=0, atol=1e-5):
        raise RuntimeError(f"{type(layer).__name__}, compiled, gives something else")

    fast(x, cache=given)
    return lambda: fast(x, cache=given)


def decoding(*, quick: bool) -> None:
    """One token at a time, hidden size 1024, a batch of 1: beside the layer's own matrix products, and after more context."""
    sizes = {"Mamba2": {"num_heads": 32}}
    for kind in (mixers.GatedDeltaNet, mixers.DeltaNet, mixers.KDA, mixers.GLA, mixers.RetNet, mixers.Mamba2):
        layer = kind(hidden_size=1024, **sizes.get(kind.__name__, {"num_heads": 8}))
        products = [module for module in layer.modules() if isinstance(module, torch.nn.Linear)]
        taken = [torch.randn(1, 1, module.in_features) for module in products]
        x, short, long = torch.randn(1, 1, 1024), mixers.MixerCache(), mixers.MixerCache()

        def multiply(products: list[torch.nn.Linear] = products, taken: list[torch.Tensor] = taken) -> object:
            return [module(part) for module, part in zip(products, taken, strict=True)]

        with torch.inference_mode():
            layer(torch.randn(1, 64, 1024), cache=short)
            layer(torch.randn(1, 4096, 1024), cache=long)
            held = short.get(0, kind=kind.__name__, sequences=1)
            if held is None:
                raise RuntimeError(f"{kind.__name__} left nothing in its cache")
            delta = kind in (mixers.GatedDeltaNet, mixers.DeltaNet, mixers.KDA)
            works: dict[str, Work] = {
                "short": lambda layer=layer, x=x, cache=short: layer(x, cache=cache),
                "projections": multiply,
                "state": state_products(held.parts["state"], reads_what_it_erases=delta),
                "long": lambda layer=layer, x=x, cache=long: layer(x, cache=cache),
            }
            if shutil.which("g++"):  # what torch.compile needs on a CPU
                works["compiled"] = compiled(layer, x, short.snapshot())
            # All inputs are of the kind compiled for, as in a loop, so what checks that again at every step is left out; eager steps have no such check.
            with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
                found = seconds(works, 30 if quick else 100)
        both = found["projections"] + found["state"]
        spent = f"{1e3 * found['short']:.2f} ms against {1e3 * found['projections']:.2f} + {1e3 * found['state']:.2f} ms"
        verdict(
            f"{kind.__name__}, a decoding step over its matrix products, projections and state ({spent})",
            found["short"] / both,
            1.3,
            least=False,
        )
        if "compiled" in found:
            verdict(
                f"{kind.__name__}, the same, compiled ({1e3 * found['compiled']:.2f} ms)",
                found["compiled"] / both,
                1.3,
                least=False,
            )
        print(f"        {kind.__name__}, over the projections alone: {found['short'] / found['projections']:.2f}", flush=True)
        verdict(f"{kind.__name__}, a decoding step after 4096 tokens over one after 64", found["long"] / found["short"], 1.1, least=False)


PEAKS: dict[str, tuple[str, int, bool]] = {
    "kda ours": ("kda", 1024, True),
    "kda theirs": ("kda", 1024, True),
    "ssd 4096": ("ssd", 4096, True),
    "ssd 16384": ("ssd", 16384, True),
    "gated delta rule 65536": ("gated delta rule", 65536, True),
    "kda 65536": ("kda", 65536, True),
}


def highest() -> int:
    """The peak of this process in kB; getrusage would start from the parent's."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def peak(which: str) -> float:
    """In this fresh process: megabytes that the peak grows by, inputs not counted."""
    name, tokens, training = PEAKS[which]
    op = {"gated delta rule": mixers.gated_delta_rule, "kda": mixers.kda, "ssd": mixers.ssd}[name]
    op = theirs()[name] if which.endswith("theirs") else op
    given = [mamba(length) if name == "ssd" else inputs(length, per_channel=name == "kda") for length in (64, tokens)]
    work(op, given[0], training=training)()
    whole = work(op, given[1], training=training)
    before = highest()
    whole()
    return (highest() - before) / 1024


def memory(threads: int, *, quick: bool) -> None:
    def grown(which: str) -> float:
        command = [sys.executable, __file__, "--peak", which, "--threads", str(threads)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])

    ours, others = grown("kda ours"), grown("kda theirs")
    verdict(f"kda, T 1024, training, memory of transformers' ({ours:.0f} against {others:.0f} MB)", ours / others, 0.25, least=False)
    short, long = grown("ssd 4096"), grown("ssd 16384")
    verdict(f"ssd, training, memory at T 16384 over that at T 4096 ({long:.0f} against {short:.0f} MB)", long / short, 4.2, least=False)
    if not quick:
        for name in ("gated delta rule", "kda"):
            verdict(f"{name}, T 65536, training, memory beyond the inputs in GB", grown(f"{name} 65536") / 1024, 2, least=False)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="fewer rounds, lengths up to 16k")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--peak", choices=list(PEAKS), help="(a child process) print the memory of one piece of work")
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    warnings.simplefilter("ignore")
    if chosen.peak:
        print(peak(chosen.peak))
        return
    against_transformers(quick=chosen.quick)
    against_the_recurrence(quick=chosen.quick)
    in_the_length(quick=chosen.quick)
    decoding(quick=chosen.quick)
    memory(chosen.threads, quick=chosen.quick)
    against_softmax(quick=chosen.quick)


if __name__ == "__main__":
    main()
