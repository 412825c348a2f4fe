"""How the state of variational linear attention grows, and the norm of its Jacobian; nothing is trained."""

import torch
from torch.nn import functional

from claims import Claim, Result
from transect import mixers

CLAIM = Claim(
    paper="Variational Linear Attention (2026)",
    says="The recurrence's Jacobian has spectral norm exactly 1 for all lengths and widths, and the state's norm is about a hundredth of linear "
    "attention's after 1,000 tokens.",
    setting="unit keys of widths 4, 16 and 64 and unit values of width 16, both with a common direction, 1,000 tokens, float64; one step's Jacobian at the end",
    reproduced_when="every norm is 1 to 1e-12, and the state's norm is below a tenth of linear attention's at every width",
)


def run() -> Result:
    """Run, and differentiate one step."""
    numbers = {}
    for width in (4, 16, 64):
        draw = torch.Generator().manual_seed(0)
        k, v = (
            functional.normalize(torch.randn(1, 1000, 1, each, generator=draw, dtype=torch.float64) + 1, dim=-1) for each in (width, 16)
        )
        _, ours = mixers.variational_linear_attention(k, k, v, output_final_state=True)
        _, sums = mixers.linear_attention(k, k, v, output_final_state=True)
        if ours is None or sums is None:
            raise TypeError("the final state was asked for")
        fixed, step = ours[..., 16:], (k[:, -1:], k[:, -1:], v[:, -1:])

        def move(memory: torch.Tensor, fixed: torch.Tensor = fixed, step: tuple[torch.Tensor, ...] = step) -> torch.Tensor:
            start = torch.cat([memory[None, None, :, None].expand(-1, -1, -1, 16), fixed], 3)
            moved = mixers.variational_linear_attention(*step, initial_state=start, output_final_state=True)[1]
            if moved is None:
                raise TypeError("the final state was asked for")
            return moved[0, 0, :, 0]

        jacobian = torch.autograd.functional.jacobian(move, ours[0, 0, :, 0])
        if not isinstance(jacobian, torch.Tensor):
            raise TypeError("one function of one input has one Jacobian")
        numbers[f"width {width}, norm of the Jacobian minus 1, in units of 1e-12"] = (
            abs(float(torch.linalg.matrix_norm(jacobian, 2)) - 1) * 1e12
        )
        numbers[f"width {width}, linear attention's state over its own"] = float(sums.norm() / ours[..., :16].norm())
    ratios = [value for name, value in numbers.items() if "state" in name]
    off = max(value for name, value in numbers.items() if "Jacobian" in name)
    return Result(
        numbers=numbers,
        reproduced=off <= 1 and min(ratios) >= 10,
        sentence=f"The Jacobian's norm is 1 to {off:.1e} x 1e-12; after 1,000 tokens linear attention's state is {min(ratios):.0f} "
        f"to {max(ratios):.0f} times larger.",
    )
