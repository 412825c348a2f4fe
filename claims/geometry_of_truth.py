"""Mean-difference probes of truth carry over to other sets as well as other linear probes do."""

import numpy as np

from claims import Claim, Result
from claims._shared import SETS, SITES, demo_sets, eligible
from transect.measure import auroc
from transect.probes import LDA, Logistic, MeanDifference

CLAIM = Claim(
    paper="Marks and Tegmark 2023, The Geometry of Truth (arXiv:2310.06824)",
    says="Difference-in-mean probes generalize as well as other probing techniques.",
    setting="Gemma 3 270M, six sets of true and false statements, five sites; every probe fitted on one set and scored on the five others",
    reproduced_when="the mean transfer AUROC of MeanDifference is at most 0.02 below that of Logistic and of LDA",
)


def run() -> Result:
    """Measure every pair of different sets at every site."""
    sets = demo_sets()
    scores: dict[str, list[float]] = {"MeanDifference": [], "LDA": [], "Logistic": []}
    home: dict[str, list[float]] = {name: [] for name in scores}
    for site in SITES:
        for train in SETS:
            rows = sets[train]
            x, y = rows.activations[site], rows.codes
            scale = float(x[~rows.test].std())
            for fitter in (MeanDifference(), LDA(), Logistic(C=0.1)):
                name = type(fitter).__name__
                fitter.fit(x[~rows.test] / scale, y[~rows.test])
                for other in SETS:
                    target = sets[other]
                    where = np.flatnonzero(rows.test) if other == train else eligible(rows, target)
                    value = auroc(fitter.decision_function(target.activations[site][where] / scale), target.codes[where])
                    (home if other == train else scores)[name].append(value)
    numbers = {f"transfer {name}": float(np.mean(values)) for name, values in scores.items()}
    numbers |= {f"at home {name}": float(np.mean(values)) for name, values in home.items()}
    own, lda, logistic = (numbers[f"transfer {name}"] for name in scores)
    held = own >= max(lda, logistic) - 0.02
    means = f"the mean transfer AUROC is {own:.2f} for MeanDifference, {lda:.2f} for LDA and {logistic:.2f} for Logistic"
    caution = ": in this small model none of them carries truth from set to set" if max(own, lda, logistic) < 0.65 else ""
    sentence = f"Over 30 pairs of sets and 5 sites {means}{caution}."
    return Result(numbers=numbers, reproduced=held, sentence=sentence)
