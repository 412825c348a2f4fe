"""Speed and memory of `transect.capture` against the bare forward pass, the usual loop and TransformerLens.

    python benchmarks/capture.py --quick
    python benchmarks/capture.py --peers-python .venv-peers/bin/python --memory 1000 20000

All contestants read the same ragged texts of 12 to 45 tokens with the same weights in float32, and are run in turn, round
after round in one process, so that a busy machine slows all of them; ratios are medians over rounds. The limit is the
bare forward pass of the base model over batches of equal length: no padding, nothing kept, nothing written.
"""

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from transect.capture import capture
from transect.models import Model, load

WORDS = """
    time year people way day man thing woman life child world school state family student group country problem hand part place case week
    company system program question work government number night point home water room mother area money story fact month lot right study
    book eye job word business issue side kind head house service friend father power hour game line end member law car city
""".split()  # noqa: SIM905 - shorter than a list
SHORTEST, LONGEST = 12, 45


def ragged_texts(model: Model, n: int, seed: int = 0) -> list[str]:
    """`n` texts of 12 to 45 tokens, `<bos>` included: each word is one token."""
    draw = random.Random(seed)
    special = len(model.tokenizer("")["input_ids"])
    return [" ".join(draw.choices(WORDS, k=draw.randint(SHORTEST, LONGEST) - special)) for _ in range(n)]


def by_length(model: Model, texts: Sequence[str], budget: int) -> list[torch.Tensor]:
    """Token ids in batches of equal length, each at most `budget` tokens."""
    lengths: dict[int, list[list[int]]] = {}
    for ids in model.tokenizer(list(texts))["input_ids"]:
        lengths.setdefault(len(ids), []).append(ids)
    batches = []
    for length, rows in sorted(lengths.items()):
        size = max(1, budget // length)
        batches += [torch.tensor(rows[at : at + size]) for at in range(0, len(rows), size)]
    return batches


def bare(model: Model, batches: Sequence[torch.Tensor]) -> None:
    """The forward pass of the base model and nothing else."""
    with torch.no_grad():
        for ids in batches:
            model.backbone(input_ids=ids, use_cache=False)


def usual_loop(model: Model, texts: Sequence[str], folder: Path) -> None:
    """What people write: batches of 32 in file order, padded, all hidden states kept, the last token gathered, one file."""
    kept = []
    model.tokenizer.padding_side = "right"
    with torch.no_grad():
        for at in range(0, len(texts), 32):
            encoded = model.tokenizer(list(texts[at : at + 32]), return_tensors="pt", padding=True)
            states = model.backbone(**encoded, output_hidden_states=True, use_cache=False).hidden_states
            last = encoded["attention_mask"].sum(1) - 1
            kept.append(torch.stack([state[torch.arange(len(last)), last] for state in states[1:]]))
    np.save(folder / "loop.npy", torch.cat(kept, dim=1).numpy())


def ours(model: Model, texts: Sequence[str], folder: Path, sites: str) -> None:
    """Our capture, to disk."""
    shutil.rmtree(folder / "store", ignore_errors=True)
    capture(model, texts, sites=sites, store=folder / "store", progress=False)


def best_budget(model: Model, texts: Sequence[str]) -> int:
    """The batch size at which the bare forward pass is fastest here."""
    times = {budget: timed(lambda budget=budget: bare(model, by_length(model, texts, budget))) for budget in (256, 512, 1024, 2048)}
    return min(times, key=lambda budget: times[budget])


def timed(work: Callable[[], None]) -> float:
    """Seconds."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def speed(model: Model, texts: Sequence[str], rounds: int, peers_python: str | None) -> None:
    """Run all contestants in turn and print their speeds and ratios."""
    n_tokens = sum(len(ids) for ids in model.tokenizer(list(texts))["input_ids"])
    budget = best_budget(model, texts[:200])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        batches, singles = by_length(model, texts, budget), by_length(model, texts[::10], 1)
        contestants: dict[str, Callable[[], None]] = {
            f"limit: bare forward, equal lengths, {budget} tokens a batch": lambda: bare(model, batches),
            "bare forward, one text at a time (every tenth text)": lambda: bare(model, singles),
            "transect, every layer, last token, to disk": lambda: ours(model, texts, folder, "layers[*]"),
            "transect, layers[6] only, to disk": lambda: ours(model, texts, folder, "layers[6]"),
            "usual loop: 32 in file order, hidden states": lambda: usual_loop(model, texts, folder),
        }
        contestants["transect, every layer, last token, to disk"]()  # imports, caches
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        for turn in range(rounds):
            names = list(contestants)
            for contestant in names[turn % len(names) :] + names[: turn % len(names)]:
                seconds[contestant].append(timed(contestants[contestant]))
            print(f"  round {turn + 1} of {rounds}: " + ", ".join(f"{times[-1]:.1f} s" for times in seconds.values()), flush=True)
        check_equal(model, texts, folder)
    limit, alone, every, six, loop = seconds.values()
    alone[:] = [seconds * n_tokens / sum(ids.numel() for ids in singles) for seconds in alone]
    print(
        f"\n{len(texts)} texts, {n_tokens} tokens, {SHORTEST}-{LONGEST} each; {torch.get_num_threads()} threads; medians of {rounds} rounds\n"
    )
    print(f"{'':64}{'tokens/s':>10}{'of limit':>10}")
    for contestant, times in seconds.items():
        print(f"{contestant:64}{n_tokens / statistics.median(times):10.0f}{ratio(limit, times):10.2f}")
    peer = transformer_lens(model, texts[: max(32, len(texts) // 10)], peers_python) if peers_python else None
    if peer:
        print(f"{'TransformerLens run_with_cache, batch 32':64}{peer:10.0f}{peer * statistics.median(limit) / n_tokens:10.2f}")
    print()
    verdict("every layer against the limit", ratio(limit, every), 0.95)
    verdict("every layer against the usual loop", ratio(loop, every), 1.7)
    verdict("layers[6] against every layer", ratio(every, six), 2.2)
    if peer:
        verdict("every layer against TransformerLens", n_tokens / statistics.median(every) / peer, 5.0)


def ratio(reference: Sequence[float], times: Sequence[float]) -> float:
    """How many times as fast as the reference, the median over rounds."""
    return statistics.median(slow / fast for slow, fast in zip(reference, times, strict=True))


def verdict(what: str, value: float, target: float, *, at_most: bool = False) -> None:
    """One line: a number, its target, and whether it is met."""
    met = value <= target if at_most else value >= target
    print(f"{'ok    ' if met else 'MISSED'} {what}: {value:.2f} (target {'<=' if at_most else '>='} {target:g})")


def check_equal(model: Model, texts: Sequence[str], folder: Path) -> None:
    """All tools must have computed the same thing: blocks 0 to L-2 against transformers' hidden states 1 to L-1."""
    acts = capture(model, texts, store=folder / "every", progress=False)
    loop = torch.from_numpy(np.load(folder / "loop.npy"))
    differences = [float((acts[site] - loop[index]).abs().max() / loop[index].abs().max()) for index, site in enumerate(acts.sites[:-1])]
    print(f"  largest relative difference from the usual loop: {max(differences):.1e}")


TRANSFORMER_LENS = """
import json, sys, time, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformer_lens.model_bridge import TransformerBridge
job = json.load(sys.stdin)
torch.set_num_threads(job["threads"])
tokenizer = AutoTokenizer.from_pretrained(job["folder"])
model = AutoModelForCausalLM.from_pretrained(job["folder"], dtype=torch.float32)
bridge = TransformerBridge.boot_transformers(job["name"], hf_model=model, tokenizer=tokenizer, device="cpu")
names = [f"blocks.{i}.hook_resid_post" for i in range(bridge.cfg.n_layers)]
texts = job["texts"]
def run(batch):
    with torch.no_grad():
        _, cache = bridge.run_with_cache(batch, names_filter=names, padding_side="left", pos_slice=-1)
run(texts[:2])
begun = time.perf_counter()
for at in range(0, len(texts), 32):
    run(texts[at : at + 32])
print(json.dumps({"seconds": time.perf_counter() - begun}))
"""


def transformer_lens(model: Model, texts: Sequence[str], python: str) -> float | None:
    """Tokens per second of TransformerLens in its own environment; None, with a line that says why, when it does not run."""
    n_tokens = sum(len(ids) for ids in model.tokenizer(list(texts))["input_ids"])
    with tempfile.TemporaryDirectory() as folder:
        model.module.save_pretrained(folder)
        model.tokenizer.save_pretrained(folder)
        job = {"folder": folder, "name": "google/gemma-3-270m", "texts": list(texts), "threads": torch.get_num_threads()}
        try:
            done = subprocess.run([python, "-c", TRANSFORMER_LENS], input=json.dumps(job), capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            last = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
            print(f"TransformerLens did not run in {python}: {last}")
            return None
    return n_tokens / json.loads(done.stdout.strip().splitlines()[-1])["seconds"]


def memory(sizes: Sequence[int], arguments: argparse.Namespace) -> None:
    """Peak memory in fresh processes: the bare forward pass, and captures to disk of the same texts."""
    print("\npeak memory, loading excluded")
    for n in sizes:
        base, peak = child("bare", n, arguments), child("capture", n, arguments)
        print(f"{f'bare forward pass, {n} texts':64}{base:10.0f} MB")
        print(f"{f'transect, every layer, last token, to disk, {n} texts':64}{peak:10.0f} MB")
        verdict(f"over the bare pass, {n} texts (MB)", peak - base, 200, at_most=True)


def child(what: str, n: int, arguments: argparse.Namespace) -> float:
    """Peak resident memory in MB of a fresh process."""
    command = [
        sys.executable,
        __file__,
        "--model",
        arguments.model,
        "--threads",
        str(arguments.threads),
        "--child",
        what,
        "--texts",
        str(n),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.strip().splitlines()[-1])


def run_child(model: Model, what: str, n: int) -> None:
    """The work of `child`, then its peak since the model was loaded."""
    texts = ragged_texts(model, n)
    reset_peak()
    if what == "bare":
        # Tokenised a thousand at a time; the forward pass over the first thousand shows its peak, and the others would not raise it.
        for at in range(0, n, 1000):
            batches = by_length(model, texts[at : at + 1000], 512)
            bare(model, batches if at == 0 else [])
    else:
        with tempfile.TemporaryDirectory() as folder:
            ours(model, texts, Path(folder), "layers[*]")
    print(peak_memory())


def reset_peak() -> None:
    """Forget the peak so far, which loading the model made; Linux only, elsewhere the peak includes loading."""
    reset = Path("/proc/self/clear_refs")
    if reset.exists():
        reset.write_text("5")


def peak_memory() -> float:
    """Peak resident memory in MB."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1000
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo", help="what transect.load takes")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", type=int, nargs="*", default=[1000], help="how many texts; [20000 takes twenty minutes on two cores]")
    parser.add_argument("--quick", action="store_true", help="100 texts, 2 rounds")
    parser.add_argument("--peers-python", help="the Python of an environment with transformer-lens")
    parser.add_argument("--child", choices=["bare", "capture"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.quick:
        arguments.texts, arguments.rounds, arguments.memory = 100, 2, [100]
    model = load(arguments.model)
    if arguments.child:
        run_child(model, arguments.child, arguments.texts)
        return
    speed(model, ragged_texts(model, arguments.texts), arguments.rounds, arguments.peers_python)
    if arguments.memory:
        memory(sorted(arguments.memory), arguments)


if __name__ == "__main__":
    main()
