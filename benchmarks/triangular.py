"""Error and time of inverting the unit-triangular matrices of delta rules, by method; one thread, float32, medians.

python benchmarks/triangular.py
"""

import statistics
import time
from typing import get_args

import torch
from torch.nn import functional

from transect.mixers.triangular import Method, invert_unit_lower


def main() -> None:
    """Print a line for each size, kind of keys and method."""
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)
    print(f"{'C':>4} {'keys':<14} {'method':<14} {'error':>10} {'ms':>8}")
    for size in (16, 32, 64):
        for kind, shared, beta in (("unlike", 0.0, 1.0), ("cosine 0.9", 3.0, 1.0), ("equal, beta 2", 1e6, 2.0)):
            k = torch.randn(128, size, 64, generator=draw, dtype=torch.float64) + shared * torch.randn(
                128, 1, 64, generator=draw, dtype=torch.float64
            )
            k = functional.normalize(k, dim=-1)
            exact = torch.eye(size, dtype=torch.float64) + beta * (k @ k.mT).tril(-1)
            truth, matrix = torch.linalg.inv(exact), exact.float()
            for method in get_args(Method):
                spent = []
                for _ in range(15):
                    start = time.perf_counter()
                    found = invert_unit_lower(matrix, method=method)
                    spent.append(time.perf_counter() - start)
                error = float((found.double() - truth).abs().max() / truth.abs().max())
                print(f"{size:>4} {kind:<14} {method:<14} {error:>10.1e} {1e3 * statistics.median(spent):>8.2f}")


if __name__ == "__main__":
    main()
