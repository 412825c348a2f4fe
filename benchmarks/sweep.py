"""Speed and objectives of the probe sweep against scikit-learn's LogisticRegression.

    python benchmarks/sweep.py --quick
    python benchmarks/sweep.py --store runs/cities/activations --label is_true

Ours: 19 sites x 9 strengths x 5 folds and the fits on all rows, then 200 bootstraps and 200 permutations of one site.
scikit-learn: the 855 folds alone (lbfgs, default tolerance, as many iterations as it wants), on the same rows, centred and
divided by the same number, in float32 as they were captured. `--raw` gives it the activations as captured, which many people do
and which is slower; objectives are compared on the scaled rows only, where both sides minimise the same.

The two run in turn, site after site in one process, so that a busy machine slows both. Objectives are computed for both in
float64. `--quick` times one fold in five of scikit-learn and counts it five times.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

# A limit that someone else's shell set would slow scikit-learn only. It must go before numpy loads.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.pop(name, None)

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from transect.probes import Logistic, resampled_scores, sweep
from transect.probes.naive import Naive, naive_objective

STRENGTHS = tuple(10.0**k for k in range(-4, 5))
FOLDS = 5
RESAMPLES = 200


def synthetic(n: int, d: int, sites: int) -> tuple[dict[str, torch.Tensor], np.ndarray]:
    """Sites like a residual stream: a falling spectrum, dimensions far larger than the others, a label that grows with depth."""
    generator = torch.Generator().manual_seed(0)
    codes = torch.randperm(n, generator=generator) % 2
    spectrum = torch.arange(1, d + 1).double() ** -1.0
    concept = torch.randn(d, generator=generator).double()
    concept /= concept.norm()
    stream = torch.zeros(n, d, dtype=torch.float64)
    found = {}
    for site in range(sites):
        turn = torch.linalg.qr(torch.randn(d, d, generator=generator).double())[0]
        stream = 0.9 * stream + torch.randn(n, d, generator=generator).double() * spectrum.sqrt() @ turn
        here = stream + torch.outer(codes * 2.0 - 1, concept) * stream.std() * (0.5 + site / 4)
        here[:, :3] = here[:, :3] * 100 + 50
        found[f"layers[{site}]"] = here.float()
    return found, codes.numpy()


def stored(path: Path, label: str | None) -> tuple[dict[str, torch.Tensor], np.ndarray]:
    """Captured activations: a store of `transect.capture`, or a file of `torch.save({"acts": {site: [n, d]}, "y": [n]})`."""
    if path.is_file():
        held = torch.load(path, weights_only=True)
        return held["acts"], held["y"].numpy()
    from transect.capture import Activations

    acts = Activations.open(path)
    column = acts.rows.column(label or "label").to_pylist()
    return {site: acts[site] for site in acts.sites}, np.unique(column, return_inverse=True)[1]


def scaled(x: torch.Tensor) -> np.ndarray:
    wide = x.double()
    wide = torch.where((wide == wide[:1]).all(0), 0, wide - wide.mean(0))
    return (wide / (float(wide.square().mean().sqrt()) or 1)).numpy()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=1000)
    options.add_argument("--width", type=int, default=640)
    options.add_argument("--sites", type=int, default=19)
    options.add_argument("--store", type=Path)
    options.add_argument("--label", help="the column of labels in the store")
    options.add_argument("--quick", action="store_true", help="time one fold in five of scikit-learn")
    options.add_argument("--raw", action="store_true", help="also time scikit-learn on activations as captured")
    options.add_argument("--threads", type=int, default=2)
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    acts, codes = stored(chosen.store, chosen.label) if chosen.store else synthetic(chosen.rows, chosen.width, chosen.sites)
    acts = dict(list(acts.items())[: chosen.sites])
    folds = np.random.default_rng(0).permutation(len(codes)) % FOLDS
    with threadpool_limits(chosen.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare(acts, codes, folds, every=FOLDS if chosen.quick else 1, raw=chosen.raw)


def compare(acts: dict[str, torch.Tensor], codes: np.ndarray, folds: np.ndarray, *, every: int, raw: bool) -> None:
    fitter = Logistic(tol=1e-3)  # as the main job fits
    sweep({"warm up": next(iter(acts.values()))[:200]}, codes[:200], folds=folds[:200], fitter=fitter, classes=(0, 1), strengths=STRENGTHS)
    ours = theirs = as_captured = 0.0
    excesses, unconverged = [], 0
    print(
        f"{'site':<12} {'ours s':>8} {'sklearn s':>10} {'ratio':>6}   largest excess of ours, strength by strength (below 0: ours is lower)"
    )
    for site, x in acts.items():
        start = time.perf_counter()
        found = sweep({site: x}, codes, folds=folds, fitter=fitter, classes=(0, 1), strengths=STRENGTHS)
        mine = time.perf_counter() - start
        unconverged += found.unconverged
        z = scaled(x)
        seconds, excess = reference(z, codes, folds, every=every, weights=fold_fits(x, codes, folds))
        if raw:
            as_captured += reference(x.numpy(), codes, folds, every=every, weights=None)[0]
        ours, theirs = ours + mine, theirs + seconds
        excesses.append(excess)
        worst = " ".join(f"{value:8.0e}" for value in excess.max(1))
        print(f"{site:<12} {mine:8.2f} {seconds:10.2f} {seconds / mine:6.1f}   {worst}", flush=True)
    site, x = list(acts.items())[2 * len(acts) // 3]
    start = time.perf_counter()
    resample(fitter, x, codes)
    resampled = time.perf_counter() - start
    total = np.concatenate([excess.ravel() for excess in excesses])
    fits = len(acts) * len(STRENGTHS) * FOLDS
    print(f"\nscikit-learn, {fits} fits: {theirs:.1f} s ({theirs / fits:.3f} s a fit{', one in five timed' if every > 1 else ''})")
    if raw:
        print(f"scikit-learn on activations as captured: {as_captured:.1f} s ({as_captured / fits:.3f} s a fit)")
    print(
        f"ours, the same and {len(acts) * len(STRENGTHS)} fits on all rows: {ours:.1f} s; {2 * RESAMPLES} resamples of {site}: {resampled:.1f} s"
    )
    print(
        f"ratio with the resamples on our side only: {theirs / (ours + resampled):.1f}"
        + (f", {as_captured / (ours + resampled):.1f} as captured" if raw else "")
    )
    print(
        f"objectives: {len(total)} compared, {int((total > 0).sum())} of ours higher at all, {int((total > 1e-9).sum())} by more than 1e-9 relative; "
        f"largest excess {total.max():.1e}, median {np.median(total):.1e}; {unconverged} of our fits unconverged"
    )


def fold_fits(x: torch.Tensor, codes: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """``[c, f, d + 1]`` our weights and biases for scaled rows, read off scores of the axes; not timed, scores are what a sweep keeps."""
    z = torch.from_numpy(scaled(x))
    d = z.shape[1]
    probes = torch.cat([torch.eye(d, dtype=z.dtype), torch.zeros(1, d, dtype=z.dtype)])
    labels = np.repeat(codes[:, None], FOLDS, 1)
    masks = (folds[:, None] != np.arange(FOLDS)).astype(float)
    answers = []
    for strength in STRENGTHS:
        scores = resampled_scores(Logistic(), z, labels, probes, weights=masks, regularization=strength, classes=(0, 1))
        answers.append(np.vstack([scores[:-1] - scores[-1:], scores[-1:]]).T)
    return np.stack(answers)


def reference(
    rows: np.ndarray, codes: np.ndarray, folds: np.ndarray, *, every: int, weights: np.ndarray | None
) -> tuple[float, np.ndarray]:
    """Seconds that scikit-learn takes, and by how much our objective is higher than its, relative, ``[c, timed folds]``."""
    rows32 = rows.astype(np.float32)
    seconds, excess = 0.0, np.zeros((len(STRENGTHS), FOLDS // every))
    for at, strength in enumerate(STRENGTHS):
        for place, fold in enumerate(range(0, FOLDS, every)):
            train = folds != fold
            start = time.perf_counter()
            fitted = LogisticRegression(C=strength, max_iter=100_000).fit(rows32[train], codes[train])
            seconds += (time.perf_counter() - start) * every
            if weights is None:
                continue
            mine = Naive(weights[at, fold, None, :-1], weights[at, fold, -1:])
            its = Naive(fitted.coef_.astype(np.float64), fitted.intercept_.astype(np.float64))
            values = [naive_objective(one, rows[train], codes[train], C=strength) for one in (mine, its)]
            excess[at, place] = values[0] / values[1] - 1
    return seconds, excess


def resample(fitter: Logistic, x: torch.Tensor, codes: np.ndarray) -> None:
    """200 bootstraps and 200 permutations at C = 1."""
    rng = np.random.default_rng(1)
    n = len(codes)
    draws = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).T.astype(float)
    resampled_scores(fitter, x, np.repeat(codes[:, None], RESAMPLES, 1), x, weights=draws, regularization=1.0, classes=(0, 1))
    shuffled = np.stack([rng.permutation(codes) for _ in range(RESAMPLES)], 1)
    resampled_scores(fitter, x, shuffled, x, regularization=1.0, classes=(0, 1))


if __name__ == "__main__":
    main()
