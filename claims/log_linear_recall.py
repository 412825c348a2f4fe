"""Whether a state for each power of two of the past recalls more than one state."""

from claims import Claim, Result
from claims._mixers import accuracies, each_at, trained
from transect.mixers.tasks import Recall

CLAIM = Claim(
    paper="Guo et al. 2025, Log-Linear Attention",
    says="Log-linear variants of Mamba-2 and Gated DeltaNet recall better than their linear-time bases.",
    setting="two blocks of width 32, two heads, 4 pairs in 32 tokens of a vocabulary of 64, 2,000 steps of 32 sequences, one seed (600 steps, tried before, "
    "left Gated DeltaNet unlearnt)",
    reproduced_when="at 4 pairs both variants are above their bases by 0.02 and above chance",
)
LAYERS = ("mamba2:head_k_dim=16", "loglinearmamba2:head_k_dim=16", "gdn", "loglineargateddeltanet")


def run() -> Result:
    """Train and test."""
    found = trained(
        Recall(vocab=64, pairs=4, length=32), LAYERS, hidden_size=32, steps=2000, batch_size=32, learning_rates=(6e-3,), every=200
    )
    mamba, log_mamba, gated, log_gated = each_at(found, 4)
    return Result(
        numbers=accuracies(found),
        reproduced=log_mamba > mamba + 0.02 and log_gated > gated + 0.02 and min(log_mamba, log_gated) > found.chance[4],
        sentence=f"At 4 pairs: Mamba-2 {mamba:.2f} and {log_mamba:.2f} log-linear, Gated DeltaNet {gated:.2f} and {log_gated:.2f} log-linear (chance 0.25).",
    )
