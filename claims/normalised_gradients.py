"""Whether scaling makes the gradients of linear attention unbounded, and normalising bounds them; nothing is trained."""

import torch
from torch.nn import functional

from claims import Claim, Result

CLAIM = Claim(
    paper="Qin et al. 2022, The Devil in Linear Transformer (TransNormer)",
    says="The gradients of scaled linear attention with respect to its scores are unbounded; with a normalisation in its place they are bounded.",
    setting="two scores of size s from 1 to 1e-6, values 1 and -1, in float64; the largest derivative of the output by a score",
    reproduced_when="the scaled form's derivative grows as 1 / s and the normalised one's stays below 1 / sqrt(eps), eps = 1e-5",
)
EPS = 1e-5


def run() -> Result:
    """Differentiate."""
    numbers = {}
    value = torch.tensor([[1.0, 0.5], [-1.0, 0.5]], dtype=torch.float64)
    for size in (1.0, 1e-2, 1e-4, 1e-6):
        for name in ("scaled", "normalised"):
            scores = torch.full((2,), size, dtype=torch.float64, requires_grad=True)
            raw = scores @ value
            out = raw / scores.sum() if name == "scaled" else functional.rms_norm(raw, (2,), eps=EPS)
            grads = [torch.autograd.grad(out[part], scores, retain_graph=True)[0] for part in (0, 1)]
            numbers[f"{name}, s = {size:g}"] = float(torch.stack(grads).abs().max())
    grows = numbers["scaled, s = 1e-06"] / numbers["scaled, s = 0.01"]
    largest = max(value for name, value in numbers.items() if name.startswith("normalised"))
    return Result(
        numbers=numbers,
        reproduced=9e3 < grows < 1.1e4 and largest <= EPS**-0.5 * 2**0.5,
        sentence=f"From s = 1e-2 to 1e-6 the scaled form's largest derivative grows {grows:,.0f} times; the normalised one's is at most {largest:.0f}.",
    )
