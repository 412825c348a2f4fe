"""Whether a sharper read, or an exact cache, finds a needle beyond the lengths trained on."""

from claims import Claim, Result
from claims._mixers import accuracies, each_at, trained
from transect.mixers.tasks import Needle

CLAIM = Claim(
    paper="Le et al. 2026, Curvature-Conditioned Query; Cui 2026, A Hippocampus for Linear Attention (HOLA)",
    says="Beyond the training length, Gated DeltaNet finds needles better with its query conditioned by the keys' curvature, and with an exact cache of "
    "surprising tokens.",
    setting="one block of width 32, trained 500 steps on 12 to 48 tokens, tested on up to 768; a cache of 8 tokens; one seed",
    reproduced_when="at eight times the training length each is above Gated DeltaNet by 0.05",
)
LAYERS = ("gdn", "curvaturequery", "exactcachedeltanet:cache_size=8")


def run() -> Result:
    """Train and test."""
    found = trained(Needle(length=48), LAYERS, hidden_size=32, depth=1, steps=500, batch_size=64, learning_rates=(5e-3,), every=125)
    far = 8 * 48
    plain, curved, cached = each_at(found, far)
    return Result(
        numbers=accuracies(found),
        reproduced=min(curved, cached) > plain + 0.05,
        sentence=f"At eight times the training length: Gated DeltaNet {plain:.2f}, with curvature {curved:.2f}, with an exact cache {cached:.2f} (chance "
        f"{found.chance[far]:.2f}).",
    )
