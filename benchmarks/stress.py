"""What a stress test's fits and statistics cost beside its captures: 1,000 texts at every site of the model.

    python benchmarks/stress.py [--quick]

The probe is fitted first and not counted. The target is for the stress test alone: everything that is not the model running takes
at most half of the time that the model runs.
"""

import argparse
import tempfile

import numpy as np
import torch

import transect
from transect.data import concat
from transect.study import Settings

TARGET = 0.5


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo", help="what transect.load takes")
    parser.add_argument("--groups", type=int, default=250, help="groups of four texts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="40 groups")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    both = concat([transect.read_table("cities"), transect.read_table("neg_cities")])
    kept = list(dict.fromkeys(both.groups.tolist()))[: 40 if arguments.quick else -(-arguments.groups // 2)]
    table = both.take(np.flatnonzero(np.isin(both.groups, kept)))
    model = transect.load(arguments.model)
    with tempfile.TemporaryDirectory() as folder:
        transect.probe(model, table, out=folder, settings=Settings(compare=False))
        report = transect.stress(folder, model=model)
    captures, statistics = report.timing.stages["captures"], report.timing.stages["statistics"]
    print(f"{len(table)} texts, {len(model.sites()) - 1} sites, {len(report.findings)} findings")
    print(f"{'captures':24}{captures:10.1f} s")
    print(f"{'fits and statistics':24}{statistics:10.1f} s")
    ratio = statistics / captures
    print(f"{'ok    ' if ratio <= TARGET else 'MISSED'} fits and statistics over captures: {ratio:.2f} (target <= {TARGET:g})")


if __name__ == "__main__":
    main()
