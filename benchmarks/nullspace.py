"""Speed of counting directions (`count_directions`) against fitting again from nothing at every step.

    python benchmarks/nullspace.py --quick
    python benchmarks/nullspace.py --store runs/cities/activations --label is_true --site layers[12]

Both sides hold the same half of the rows out, apply the same rule and stop at the same step: ours with one factorisation, the twin
(`probes.naive.naive_nullspace`'s step) by projecting the rows and solving ridge regression again. A third column fits our own `Ridge`
again at every step, which is what a user without this function would write. Nobody makes intervals in the comparison; what they add is
printed. Seconds of the processor, so that a busy machine counts for nobody; best of several rounds, one thread unless told otherwise.

Prints one line with ``ok`` or ``MISSED`` for each thing promised: the same count as the twin, the same scores to 1e-6, and at least
ten times its speed. Exit status 1 where one is missed.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from threadpoolctl import threadpool_limits

from transect.measure import auroc, count_directions, permutation_p, permute_labels
from transect.probes import Ridge

PROMISED = 10.0
SAME_SCORES = 1e-6
PENALTY = 100.0
SHUFFLES = 999


def synthetic(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """A residual stream's falling spectrum, with the label in a random direction of every quarter of it."""
    rng = np.random.default_rng(0)
    codes = rng.permutation(np.arange(n) % 2)
    spread = np.arange(1, d + 1) ** -0.5
    x = rng.normal(size=(n, d)) * spread
    for part in np.array_split(np.arange(d), 16):
        toward = rng.normal(size=len(part))
        x[:, part] += 1.5 * codes[:, None] * spread[part] * toward / np.linalg.norm(toward)
    return (x @ np.linalg.qr(rng.normal(size=(d, d)))[0]).astype(np.float32).astype(float), codes


def stored(path: Path, label: str, site: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Captured activations of one site, and a column of two labels."""
    from transect.capture import Activations

    acts = Activations.open(path)
    name = site or acts.sites[2 * len(acts.sites) // 3]
    print(f"{path}, {name}")
    return acts[name].double().numpy(), np.unique(acts.rows.column(label).to_pylist(), return_inverse=True)[1]


def again(x: np.ndarray, codes: np.ndarray, mask: np.ndarray, fit: Callable[..., np.ndarray], most: int) -> tuple[int, list[np.ndarray]]:
    """The same count, each direction fitted to projected rows by ``fit``; with the held-out scores of every step."""
    shuffled = permute_labels(codes[mask], shuffles=SHUFFLES, seed=0).labels.astype(bool)
    middle = x[~mask].mean(0)
    rows, rest = x[~mask] - middle, x[mask] - middle
    whole, alpha = rows, PENALTY * (rows**2).mean()
    found, scores = [], []
    while len(found) < most:
        weight = fit(rows, codes[~mask], alpha)
        unit = weight / np.linalg.norm(weight)
        scores.append(rest @ unit)
        ranks, count = stats.rankdata(scores[-1]), shuffled.sum(1)
        null = (shuffled @ ranks - count * (count + 1) / 2) / (count * (len(ranks) - count))
        if permutation_p(auroc(scores[-1], codes[mask]), null) > 0.05:
            break
        found.append(unit)
        basis = np.linalg.qr(np.stack(found, 1))[0]
        rows = whole - whole @ basis @ basis.T
    return len(found), scores


def twin(rows: np.ndarray, codes: np.ndarray, alpha: float) -> np.ndarray:
    """The step of `naive_nullspace`."""
    sign = 2.0 * codes - 1
    return rows.T @ np.linalg.solve(rows @ rows.T + alpha * np.eye(len(rows)), sign - sign.mean())


def our_ridge(rows: np.ndarray, codes: np.ndarray, alpha: float) -> np.ndarray:
    return Ridge(alpha=alpha, targets="classes").fit(rows, codes).coef_[0]


def best(job: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """The shortest of several times in seconds of the processor, and the result."""
    times, result = [], None
    for _ in range(rounds):
        start = time.process_time()
        result = job()
        times.append(time.process_time() - start)
    return min(times), result


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=2000, help="half of them are fitted")
    options.add_argument("--width", type=int, default=640)
    options.add_argument("--store", type=Path, help="a store of captured activations instead of synthetic ones")
    options.add_argument("--label", default="label", help="the column of labels in the store")
    options.add_argument("--site", help="the site in the store; a late one by default")
    options.add_argument("--most", type=int, default=100)
    options.add_argument("--quick", action="store_true", help="one round")
    options.add_argument("--threads", type=int, default=1)
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    rounds = 1 if chosen.quick else 3
    with threadpool_limits(chosen.threads):
        x, codes = stored(chosen.store, chosen.label, chosen.site) if chosen.store else synthetic(chosen.rows, chosen.width)
        mask = np.random.default_rng(1).permutation(len(x)) % 2 == 0
        count_directions(x[:64], codes[:64], most=1)  # loads what loads late

        def count(resamples: int) -> Callable[[], Any]:
            settings = {"held_out": mask, "regularization": PENALTY, "most": chosen.most}
            return lambda: count_directions(x, codes, resamples=resamples, **settings)

        ours, counted = best(count(0), rounds)
        whole, _ = best(count(2000), 1)
        slow, (slow_count, scores) = best(lambda: again(x, codes, mask, twin, chosen.most), rounds)
        ridge, (ridge_count, _) = best(lambda: again(x, codes, mask, our_ridge, chosen.most), rounds)
    print(
        f"{len(x)} rows ({counted.n_fitted} fitted) of width {x.shape[1]}: {counted.n_directions} directions, stopped by {counted.stopped}"
    )
    print(
        f"ours {ours:.3f} s ({whole:.3f} s with intervals); twin {slow:.3f} s ({slow_count}); our Ridge again at every step {ridge:.3f} s ({ridge_count})"
    )
    off = max(abs(auroc(said, codes[mask]) - step.auroc.value) for said, step in zip(scores, counted.steps, strict=False))
    return report(
        [
            ("same count as the twin", slow_count == counted.n_directions, f"{counted.n_directions} and {slow_count}"),
            ("same held-out AUROC at every step", off <= SAME_SCORES, f"off by {off:.1e}, at most {SAME_SCORES:.0e}"),
            ("speed against the twin", slow / ours >= PROMISED, f"{slow / ours:.1f} times, at least {PROMISED:.0f}"),
        ]
    )


def report(promises: list[tuple[str, bool, str]]) -> int:
    for name, kept, words in promises:
        print(f"{'ok' if kept else 'MISSED':<6} {name}: {words}")
    return 0 if all(kept for _, kept, _ in promises) else 1


if __name__ == "__main__":
    sys.exit(main())
