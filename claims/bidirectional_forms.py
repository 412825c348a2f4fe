"""Whether the three forms of bidirectional linear attention are one."""

import torch

from claims import Claim, Result
from transect.mixers import bidirectional_attention

CLAIM = Claim(
    paper="Afzal et al. 2025, Linear Attention for Efficient Bidirectional Sequence Modeling (LION)",
    says="Full attention, a bidirectional RNN and the chunkwise form are theoretically equivalent for all decay kinds.",
    setting="500 tokens, no decay, one per head, and one per channel, normalised, float32 and float64",
    reproduced_when="forms differ by at most 1e-12 of the largest in float64 and 2e-5 in float32",
)


def run() -> Result:
    """Compare."""
    draw = torch.Generator().manual_seed(0)
    q, k = (torch.rand(2, 500, 2, 16, generator=draw, dtype=torch.float64) for _ in range(2))
    v = torch.randn(2, 500, 2, 16, generator=draw, dtype=torch.float64)
    gates = {"none": None, "per head": -0.1 * torch.rand(2, 500, 2, generator=draw, dtype=torch.float64)}
    gates["per channel"] = -0.1 * torch.rand(2, 500, 2, 16, generator=draw, dtype=torch.float64)
    numbers = {}
    for kind, g in gates.items():
        truth = bidirectional_attention(q, k, v, g, normalize=True, form="parallel")
        for dtype in (torch.float64, torch.float32):
            given = [None if part is None else part.to(dtype) for part in (q, k, v, g)]
            for form in ("recurrent", "chunk"):
                off = bidirectional_attention(*given, normalize=True, form=form) - truth  # pyright: ignore[reportArgumentType]
                numbers[f"{kind}, {form}, {str(dtype)[6:]}, in units of 1e-12"] = float(off.abs().max() / truth.abs().max()) * 1e12
    double = max(value for name, value in numbers.items() if "float64" in name) * 1e-12
    single = max(value for name, value in numbers.items() if "float32" in name) * 1e-12
    return Result(
        numbers=numbers,
        reproduced=double <= 1e-12 and single <= 2e-5,
        sentence=f"The forms differ by at most {double:.1e} of the largest output in float64 and {single:.1e} in float32.",
    )
