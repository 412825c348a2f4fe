"""How many pairs a memory of one size holds, written by sums or by the delta rule; nothing is trained."""

import torch
from torch.nn import functional

from claims import Claim, Result
from transect import mixers

CLAIM = Claim(
    paper="Schlag et al. 2021, Linear Transformers Are Secretly Fast Weight Programmers",
    says="Sums of outer products hold few associations before they interfere; the delta rule holds more, and can replace a value.",
    setting="unit keys of width 32, one-hot values among 64, one state of 32 x 64, 50 draws: keys in random directions, keys that share a direction (cosine "
    "about 0.5), and keys of which each is written a second time with another value, the later of which is asked; a value is right where it is the largest",
    reproduced_when="at 32 pairs the delta rule is 0.1 above sums in all three settings",
)
PAIRS = (8, 16, 32, 64)


def run() -> Result:
    """Store, then ask for everything."""
    draw = torch.Generator().manual_seed(0)
    numbers = {}
    for setting in ("random", "alike", "replaced"):
        for pairs in PAIRS:
            k = torch.randn(50, pairs, 1, 32, generator=draw)
            if setting == "alike":
                k = k + torch.randn(50, 1, 1, 32, generator=draw)
            k = functional.normalize(k, dim=-1)
            places = torch.stack([torch.randperm(64, generator=draw)[:pairs] for _ in range(50)])
            keys, stored = k, places
            if setting == "replaced":
                before = torch.stack([torch.randperm(64, generator=draw)[:pairs] for _ in range(50)])
                keys, stored = torch.cat([k, k], 1), torch.cat([before, places], 1)
            v = functional.one_hot(stored, 64).float()[:, :, None]
            for name in ("sums", "delta rule"):
                if name == "sums":
                    _, state = mixers.linear_attention(keys, keys, v, output_final_state=True)
                else:
                    _, state = mixers.delta_rule(keys, keys, v, torch.ones(keys.shape[:3]), output_final_state=True)
                if state is None:
                    raise TypeError("the final state was asked for")
                said = (k[:, :, 0] @ state[:, 0]).argmax(-1)
                numbers[f"{setting}, {name}, {pairs} pairs"] = float((said == places).double().mean())
    gains = {
        setting: numbers[f"{setting}, delta rule, 32 pairs"] - numbers[f"{setting}, sums, 32 pairs"]
        for setting in ("random", "alike", "replaced")
    }
    return Result(
        numbers=numbers,
        reproduced=min(gains.values()) >= 0.1,
        sentence="At 32 pairs the delta rule gives back more than sums by "
        + ", ".join(f"{gain:+.2f} ({setting})" for setting, gain in gains.items())
        + ". It replaces values, which sums cannot; of values written once sums give more back, as the largest of 64 forgives their interference.",
    )
