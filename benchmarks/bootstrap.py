"""10,000 group bootstraps of AUROC on 5,000 rows against a loop over scikit-learn's roc_auc_score on the same resamples.

    python benchmarks/bootstrap.py [--quick]

The loop is timed on some of the resamples and scaled; the values of those must agree to 1e-12.
"""

import argparse
import time

import numpy as np
from sklearn.metrics import roc_auc_score

from transect.measure import auroc_bootstrap
from transect.measure.resampling import resample_counts, units

ROWS, GROUPS, TARGET = 5000, 1250, 50.0


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--loop", type=int, default=500, help="how many of them the loop measures")
    parser.add_argument("--quick", action="store_true", help="2,000 resamples, 100 in the loop")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.resamples, arguments.loop = 2000, 100
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, ROWS)
    scores = np.round(labels + rng.normal(size=ROWS), 2)  # with ties
    groups = rng.permutation(np.arange(ROWS) % GROUPS)

    begun = time.process_time()
    ours = auroc_bootstrap(scores, labels, groups=groups, resamples=arguments.resamples, seed=0)
    own = time.process_time() - begun

    unit_of_row, n_units, _ = units(groups, n=ROWS, seed=0)
    counts = np.concatenate(list(resample_counts(n_units, resamples=arguments.resamples, seed=0)), axis=1)[:, : arguments.loop]
    rows_of = [np.flatnonzero(unit_of_row == unit) for unit in range(n_units)]
    begun = time.process_time()
    theirs = []
    for column in counts.T:
        rows = np.concatenate([rows_of[unit] for unit, times in enumerate(column.astype(int)) for _ in range(times)])
        theirs.append(roc_auc_score(labels[rows], scores[rows]))
    loop = (time.process_time() - begun) * arguments.resamples / arguments.loop

    difference = float(np.abs(ours[: arguments.loop] - np.array(theirs)).max())
    print(f"{ROWS} rows in {GROUPS} groups, {arguments.resamples} resamples, processor seconds")
    print(f"{'transect, auroc_bootstrap':48}{own:10.2f} s")
    print(f"{f'loop over roc_auc_score ({arguments.loop} timed, scaled)':48}{loop:10.2f} s")
    print(f"{'ok    ' if difference <= 1e-12 else 'MISSED'} largest difference: {difference:.1e} (target <= 1e-12)")
    print(f"{'ok    ' if loop / own >= TARGET else 'MISSED'} times as fast: {loop / own:.0f} (target >= {TARGET:g})")


if __name__ == "__main__":
    main()
