"""Which instruction pair a deception probe is fitted to explains most of how well it does; probes for one threat beat one for all."""

import numpy as np

from claims import Claim, Result
from claims._chats import Answers, deception_answers, fit_probe, rows_of
from claims._shared import SITES
from transect.data import group_folds
from transect.measure import auroc, variance_explained

CLAIM = Claim(
    paper="Deception probes: instruction pairs and threat taxonomy (2026)",
    says="The choice of the instruction pair explains 70.6% of the variance of probe performance; specialised probes should be "
    "preferred to a universal one.",
    setting="Gemma 3 270M, honest_deceptive read as plain text, mean over the answer, five sites. Variance: fitted to answers to plain questions "
    "after one of 7 pairs, tested on each of 3 other threats after the 6 other pairs. Targeted: fitted to one threat or to as many rows of "
    "all four, tested on held-out questions of the threat after a held-out pair. Synthetic chats, written by rule",
    reproduced_when="the pair explains more than half of the variance and more than threat and site, and targeted probes "
    "have a mean AUROC at least 0.01 above universal ones of equal size",
)
TARGET_SITE = "layers[9]"


def run() -> Result:
    """Share out the variance, then compare targeted with universal."""
    chats = deception_answers()
    pairs, threats = np.unique(chats.instruction).tolist(), np.unique(chats.threat).tolist()
    values: list[float] = []
    factors: dict[str, list[str]] = {"pair": [], "threat": [], "site": []}
    for site in SITES:
        x = chats.activations[site]
        for pair in pairs:
            fit = (chats.instruction == pair) & (chats.threat == "falsehood")
            scores = fit_probe(rows_of(x, fit), chats.codes[fit]).scores(x)
            for threat in (name for name in threats if name != "falsehood"):
                test = (chats.instruction != pair) & (chats.threat == threat)
                values.append(auroc(scores[test], chats.codes[test] == 1))
                for name, level in zip(factors, (pair, threat, site), strict=True):
                    factors[name].append(level)
    found = variance_explained(values, factors, resamples=500)
    shares = {factor.name: factor for factor in found.factors}
    targeted, universal = _targeted(chats, threats, pairs)
    numbers = {f"share of {name}": shares[name].eta2.value for name in factors}
    numbers |= {
        "share of pair, low end": shares["pair"].eta2.low,
        "share of pair, high end": shares["pair"].eta2.high,
        "mean AUROC": float(np.mean(values)),
        "lowest AUROC": min(values),
        "targeted AUROC": targeted,
        "universal AUROC": universal,
    }
    pair = numbers["share of pair"]
    dominates = pair > 0.5 and found.factors[0].name == "pair"
    sentence = (
        f"The instruction pair explains {pair:.0%} of the variance of {len(values)} AUROCs from {min(values):.2f} to {max(values):.2f}, "
        f"the threat {numbers['share of threat']:.0%} and the "
        f"site {numbers['share of site']:.0%}; probes for one threat score {targeted:.3f}, universal ones of the same size {universal:.3f}."
    )
    return Result(numbers=numbers, reproduced=dominates and targeted >= universal + 0.01, sentence=sentence)


def _targeted(chats: Answers, threats: list[str], pairs: list[str]) -> tuple[float, float]:
    """Mean AUROC over threats, held-out pairs and halves of the questions: fitted to the threat, and fitted to all."""
    x, rng = chats.activations[TARGET_SITE], np.random.default_rng(0)
    # Questions of each threat lie evenly in both halves.
    half = np.empty(len(x), dtype=int)
    for threat in threats:
        here = np.flatnonzero(chats.threat == threat)
        half[here] = group_folds(chats.groups[here], chats.codes[here], folds=2, seed=0)
    own, every = [], []
    for left_out in pairs:
        for fold in (0, 1):
            fit = (chats.instruction != left_out) & (half != fold)
            # An honest row and its deceptive twin follow each other, so they are drawn together.
            by_threat = {threat: np.flatnonzero(fit & (chats.threat == threat)).reshape(-1, 2) for threat in threats}
            size = min(map(len, by_threat.values()))
            mixed = np.concatenate([rng.permutation(twins)[: size // len(threats)] for twins in by_threat.values()]).ravel()
            universal = fit_probe(rows_of(x, mixed), chats.codes[mixed])
            for threat, twins in by_threat.items():
                test = (chats.instruction == left_out) & (half == fold) & (chats.threat == threat)
                some = twins[: size // len(threats) * len(threats)].ravel()
                for probe, kept in ((fit_probe(rows_of(x, some), chats.codes[some]), own), (universal, every)):
                    kept.append(auroc(probe.scores(rows_of(x, test)), chats.codes[test] == 1))
    return float(np.mean(own)), float(np.mean(every))
