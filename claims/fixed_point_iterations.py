"""Whether a dense RNN tracks a group better with more fixed-point iterations, and how fast the iterations settle where they must."""

from itertools import pairwise

import torch

from claims import Claim, Result
from claims._mixers import accuracies, each_at, trained
from transect.mixers import fixed_point_recurrence
from transect.mixers.tasks import A5

CLAIM = Claim(
    paper="Movahedi et al. 2025, Fixed-Point RNNs: Interpolating from Diagonal to Dense",
    says="A dense RNN made of diagonal sweeps tracks A5 the better the more fixed-point iterations it makes, with the same parameters.",
    setting="fixed-point RNNs of 1, 2, 4 and 8 sweeps, one block of width 64 with a state of 128 in one head, trained 4,000 steps on A5 words of 4, two "
    "seeds, tested on 4 to 32; and sweeps of 32 random mixings in float64 beside their fixed points",
    reproduced_when="on words of 4 no doubling of the sweeps loses more than 0.05 and 8 sweeps are at least 0.3 above one; and no sweep leaves more of the "
    "largest error than rho, the largest sum of absolute values in a row of I - Q",
)


def share_of_the_bound(*, draws: int = 32, tokens: int = 200, width: int = 8, sweeps: int = 8) -> float:
    """The most that a sweep leaves of the largest error, divided by the rho it may leave."""
    draw, shares = torch.Generator().manual_seed(0), []
    kind = {"generator": draw, "dtype": torch.float64}
    for row in range(draws):
        rho = (0.3, 0.6, 0.9, 0.99)[row // 2 % 4]
        change = torch.randn(1, tokens, 1, width, width, **kind)
        change = change.abs() if row % 2 else change  # of one sign, where errors of channels add up
        q = torch.eye(width, dtype=torch.float64) - rho * change / change.abs().sum(-1, keepdim=True)
        g, x = -(2 * torch.randn(1, tokens, 1, width, **kind) - 2).exp(), torch.randn(1, tokens, 1, width, **kind)
        limit, _ = fixed_point_recurrence(g, q, x, iterations=None)
        found = [torch.zeros_like(limit), *(fixed_point_recurrence(g, q, x, iterations=count)[0] for count in range(1, sweeps + 1))]
        errors = [float((each - limit).abs().max()) for each in found]
        shares += [later / (rho * sooner) for sooner, later in pairwise(errors)]
    return max(shares)


def run() -> Result:
    """Sweep to fixed points that are known, then train."""
    share = share_of_the_bound()
    layers = [f"fprnn:iterations={count};head_dim=128" for count in (1, 2, 4, 8)]
    found = trained(
        A5(length=4),
        layers,
        hidden_size=64,
        num_heads=1,
        depth=1,
        steps=4000,
        batch_size=128,
        learning_rates=(1e-2,),
        seeds=2,
        every=200,
        test_size=512,
    )
    within, twice = each_at(found, 4), each_at(found, 8)
    return Result(
        numbers={"most that a sweep left of the error, as a share of rho": share, **accuracies(found)},
        reproduced=all(more >= fewer - 0.05 for fewer, more in pairwise(within)) and within[-1] >= within[0] + 0.3 and share <= 1 + 1e-9,
        sentence=f"On A5 words of the training length 1, 2, 4 and 8 sweeps have {', '.join(f'{value:.2f}' for value in within)}, at twice of it "
        f"{', '.join(f'{value:.2f}' for value in twice)} (chance {found.chance[4]:.2f}); a sweep leaves at most {share:.3f} of what the bound allows.",
    )
