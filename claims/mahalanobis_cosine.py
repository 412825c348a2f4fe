"""A probe's Mahalanobis cosine similarity to a probe trained on other data predicts, linearly, its AUROC there."""

import numpy as np

from claims import Claim, Result
from claims._shared import SETS, SITES, demo_sets, eligible
from transect.measure import auroc, cosine, mahalanobis_cosine
from transect.probes import LDA, Logistic, MeanDifference

CLAIM = Claim(
    paper="Ying, Hase and Kriegeskorte 2026, Comparing Linear Probes with Mahalanobis Cosine Similarity (arXiv:2606.19603)",
    says="MCS to a reference probe trained out of distribution predicts the AUROC there linearly (R2 = 0.98), better than cosine.",
    setting="Gemma 3 270M, six sets, five sites, three probes; the reference is fitted on the test set's own fit rows, and MCS is "
    "taken on its test rows",
    reproduced_when="R2 of a straight line from MCS to AUROC is at least 0.9, and above that of cosine",
)


def run() -> Result:
    """Measure every pair of different sets, at every site, with every probe."""
    sets = demo_sets()
    mcs, plain, found, reference = [], [], [], []
    for site in SITES:
        scale = float(np.mean([float(rows.activations[site].std()) for rows in sets.values()]))
        for fitter in (MeanDifference(), LDA(), Logistic(C=0.1)):
            weights = {}
            for name, rows in sets.items():
                x = rows.activations[site][~rows.test] / scale
                weights[name] = fitter.fit(x, rows.codes[~rows.test]).readout_.weight[0].double()
            for train in SETS:
                for test in SETS:
                    if train == test:
                        continue
                    where = np.intersect1d(eligible(sets[train], sets[test]), np.flatnonzero(sets[test].test))
                    x = sets[test].activations[site][where].double() / scale
                    found.append(auroc(x @ weights[train], sets[test].codes[where]))
                    mcs.append(mahalanobis_cosine(weights[train], weights[test], x))
                    plain.append(cosine(weights[train], weights[test]))
                    reference.append(auroc(x @ weights[test], sets[test].codes[where]))
    numbers = {"R2 of MCS": _r2(mcs, found), "R2 of cosine": _r2(plain, found), "pairs": float(len(found))}
    # The closed form is a line only among references that read their own set about equally well.
    good = np.array(reference) > 0.95
    numbers["pairs whose reference reads its set"] = float(good.sum())
    numbers["R2 of MCS among those"] = _r2(np.array(mcs)[good], np.array(found)[good])
    held = numbers["R2 of MCS"] >= 0.9 and numbers["R2 of MCS"] > numbers["R2 of cosine"]
    ours, plain_r2 = numbers["R2 of MCS"], numbers["R2 of cosine"]
    sentence = (
        f"Over {len(found)} pairs MCS predicts the AUROC with R2 = {ours:.2f}, cosine with {plain_r2:.2f}; among the {int(good.sum())} pairs "
        f"whose reference probe itself scores above 0.95, MCS does with R2 = {numbers['R2 of MCS among those']:.2f}."
    )
    return Result(numbers=numbers, reproduced=held, sentence=sentence)


def _r2(x: list[float] | np.ndarray, y: list[float] | np.ndarray) -> float:
    return float(np.corrcoef(x, y)[0, 1] ** 2)
