"""What a monitor costs: tokens per second of `generate` with four probes against without, and of `transect.capture_generated`.

    python benchmarks/monitor.py
    python benchmarks/monitor.py --quick

Both contestants generate the same tokens greedily from the same prompts, in turn, round after round in one process, the
first of each round alternating, so that a busy machine slows both; ratios are medians over rounds.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import transect
from transect.capture.reread import reread
from transect.intervene import monitor
from transect.linear.origin import Origin
from transect.models import Model, load

PROMPTS = ("The city of Paris is in", "Water boils at", "She opened the door and looked at the rain", "Is ten larger than nine?")


def probes_for(model: Model) -> dict[str, transect.Readout]:
    """Four random probes: two at one block in the middle, one late, one at the final norm."""
    draw = torch.Generator().manual_seed(0)
    n, width = len(model.structure.blocks), model.width or 0
    sites = {"truth": f"layers[{n // 2}]", "harm": f"layers[{n // 2}]", "late": f"layers[{n - 2}]", "end": "final_norm"}
    return {
        name: transect.Readout(
            weight=torch.randn(1, width, generator=draw), bias=torch.zeros(1), origin=Origin(site=site, model=model.fingerprint)
        )
        for name, site in sites.items()
    }


def inputs_for(model: Model, batch: int) -> dict[str, torch.Tensor]:
    """Ragged prompts, padded on the left."""
    tokenizer: Any = model.tokenizer
    tokenizer.padding_side = "left"
    encoded = tokenizer([PROMPTS[row % len(PROMPTS)] for row in range(batch)], return_tensors="pt", padding=True)
    return {"input_ids": encoded["input_ids"].to(model.device), "attention_mask": encoded["attention_mask"].to(model.device)}


def generate(model: Model, given: dict[str, torch.Tensor], n_new: int) -> torch.Tensor:
    """Greedy decoding of exactly `n_new` tokens."""
    module: Any = model.module
    return module.generate(**given, max_new_tokens=n_new, min_new_tokens=n_new, do_sample=False)


def timed(work: Callable[[], object], device: torch.device) -> float:
    """Seconds."""
    begun = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begun


def compare(model: Model, *, batch: int, n_new: int, rounds: int, thresholds: float | None) -> float:
    """The speed of generation with the monitor, as a share of that without: the median over rounds."""
    given, probes = inputs_for(model, batch), probes_for(model)

    def watched() -> torch.Tensor:
        with monitor(model, probes, thresholds=thresholds):
            return generate(model, given, n_new)

    def bare() -> torch.Tensor:
        return generate(model, given, n_new)

    if not torch.equal(bare(), watched()):
        raise SystemExit("the monitor changed what is generated")
    ratios, speeds = [], []
    for turn in range(rounds):
        first, second = (bare, watched) if turn % 2 == 0 else (watched, bare)
        seconds = {first: timed(first, model.device), second: timed(second, model.device)}
        ratios.append(seconds[bare] / seconds[watched])
        speeds.append(batch * n_new / seconds[bare])
    what = "no threshold" if thresholds is None else "thresholds"
    print(
        f"  batch {batch:2d}, {what:12}: {statistics.median(speeds):7.1f} tokens/s bare; ratios {' '.join(f'{ratio:.3f}' for ratio in ratios)}"
    )
    return statistics.median(ratios)


def reading(model: Model, *, batch: int, n_new: int, rounds: int) -> float:
    """The time of the clean pass of `capture_generated`, as a share of the time it takes to write the texts."""
    given, shares = inputs_for(model, batch), []
    for _ in range(rounds):
        out: list[torch.Tensor] = []
        writing = timed(lambda out=out: out.append(generate(model, given, n_new)), model.device)
        mask = torch.nn.functional.pad(given["attention_mask"], (0, n_new), value=1) > 0
        ids = [row[kept].tolist() for row, kept in zip(out[0], mask, strict=True)]
        shares.append(timed(lambda ids=ids: reread(model, ids, sites="layers[*]", tokens="all"), model.device) / writing)
    return statistics.median(shares)


def verdict(what: str, value: float, target: float, *, at_most: bool = False) -> None:
    """One line: a number, its target, and whether it is met."""
    met = value <= target if at_most else value >= target
    print(f"{'ok    ' if met else 'MISSED'} {what}: {value:.3f} (target {'<=' if at_most else '>='} {target:g})", flush=True)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo", help="what transect.load takes")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tokens", type=int, default=48, help="new tokens per text")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="16 tokens, 5 rounds")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.quick:
        arguments.rounds, arguments.tokens = 5, 16
    model = load(arguments.model, device=arguments.device)
    print(f"{model.name}, {arguments.tokens} new tokens, {torch.get_num_threads()} threads, medians of {arguments.rounds} rounds\n")
    settings = {"n_new": arguments.tokens, "rounds": arguments.rounds}
    for batch in (1, 16):
        verdict(f"four probes, batch {batch}", compare(model, batch=batch, thresholds=None, **settings), 0.98)
        verdict(f"four probes with thresholds, batch {batch}", compare(model, batch=batch, thresholds=1e9, **settings), 0.98)
    share = reading(model, batch=16, n_new=arguments.tokens, rounds=min(arguments.rounds, 3))
    verdict("reading finished texts, as a share of writing them, batch 16", share, 0.5, at_most=True)


if __name__ == "__main__":
    main()
