"""A rich enough map finds anything in an untrained model; a linear probe on held-out groups must not."""

import numpy as np

import transect
from claims import Claim, Result
from claims._shared import demo_model, demo_sets, read_sets
from transect.measure import auroc, permute_labels
from transect.probes import Logistic

CLAIM = Claim(
    paper="The non-linear representation dilemma: is causal abstraction enough for mechanistic interpretability? (2025)",
    says="Unrestricted maps align any network, even a randomly initialised one, with any algorithm (100% accuracy).",
    setting="Gemma 3 270M and the same architecture with random weights, cities, layers[9]; the rich map is a nearest-neighbour table "
    "over the activations, asked about the rows it was made from; the linear probe is asked about held-out cities",
    reproduced_when="the rich map is perfect on the untrained model for true and for shuffled labels alike, while the linear probe is "
    "above 0.9 on the trained model and below 0.65 on the untrained one",
)
SITE = "layers[9]"


def run() -> Result:
    """Measure both maps on both models."""
    trained = demo_sets()["cities"]
    bare = read_sets(transect.untrained(demo_model(), seed=0), ("cities",), (SITE,))["cities"]
    shuffled = permute_labels(bare.codes, groups=bare.groups, shuffles=1, seed=0).labels[0]
    numbers = {
        "linear, trained": _linear(trained.activations[SITE], trained.codes, trained.test),
        "linear, untrained": _linear(bare.activations[SITE], bare.codes, bare.test),
        "rich map, untrained": _lookup(bare.activations[SITE], bare.codes),
        "rich map, untrained, shuffled labels": _lookup(bare.activations[SITE], shuffled),
    }
    rich = min(numbers["rich map, untrained"], numbers["rich map, untrained, shuffled labels"])
    held = rich == 1 and numbers["linear, trained"] > 0.9 and numbers["linear, untrained"] < 0.65
    trained_score, bare_score = numbers["linear, trained"], numbers["linear, untrained"]
    sentence = (
        f"A lookup over untrained activations is right on {rich:.0%} of its rows whatever the labels; a linear probe on held-out "
        f"cities scores {trained_score:.2f} on the trained and {bare_score:.2f} on the untrained model."
    )
    return Result(numbers=numbers, reproduced=held, sentence=sentence)


def _linear(x, codes: np.ndarray, test: np.ndarray) -> float:  # noqa: ANN001 - a torch tensor [n, d]
    scale = float(x[~test].std())
    probe = Logistic(C=0.1).fit(x[~test] / scale, codes[~test])
    return auroc(probe.decision_function(x[test] / scale), codes[test])


def _lookup(x, codes: np.ndarray) -> float:  # noqa: ANN001 - a torch tensor [n, d]
    """Accuracy of a 1-nearest-neighbour table on its own rows; below 1 only where two different rows have the same activation."""
    from sklearn.neighbors import KNeighborsClassifier

    rows = x.double().numpy()
    return float((KNeighborsClassifier(n_neighbors=1).fit(rows, codes).predict(rows) == codes).mean())
