"""Do other seeds, other folds and other layers find the same thing?"""

import numpy as np
import torch

from transect.data import group_folds
from transect.errors import InputError
from transect.measure import Estimate, agreement
from transect.probes import resampled_scores
from transect.report import NotTried, StressFinding, StressPoint
from transect.study.stress_test.settings import StressSettings
from transect.study.stress_test.subject import Subject

NAME = "agreement"
ALIKE, APART = 0.9, 0.5


def agreement_finding(subject: Subject, how: StressSettings) -> StressFinding | NotTried:
    """Mean correlation of held-out scores among bootstrap refits, among folds, and among sites; and cosines among folds."""
    try:
        points = _points(subject, how)
    except InputError as error:
        return NotTried(name=NAME, reason=str(error))
    shaky = min(points[0].estimate.value, points[1].estimate.value)
    status = "holds" if shaky >= ALIKE else "fooled" if shaky < APART else "weakens"
    return StressFinding(
        name=NAME, question="Do other seeds, folds and layers find the same thing?", measure="agreement", points=tuple(points), status=status,
        sentence=_sentence(points),
        rule=f"It holds where both refits and folds correlate {ALIKE} or more, and is fooled where they fall below {APART}: then the direction is an "
        f"accident of the rows. Sites are shown and not judged.",
        source="stability of refits; mean over pairs", low=-1.0, chance=0.0,
    )  # fmt: skip


def _points(subject: Subject, how: StressSettings) -> list[StressPoint]:
    seeds, folds, sites = _measure(subject, _seeds(subject, how), how), _folds(subject, how), _sites(subject)
    points = [
        StressPoint(name="other draws of the fitted groups", estimate=seeds, note=f"{how.refits} bootstrap refits, score correlation"),
        StressPoint(name="other folds", estimate=_measure(subject, folds[0], how), note="one fold left out each time, score correlation"),
        StressPoint(name="other folds, directions", estimate=agreement(directions=folds[1]).cosine or seeds, note="cosine of directions"),
    ]
    if len(sites) < 2:  # there is nothing that one site could agree with
        return points
    everywhere = _measure(subject, sites, how)
    points.append(
        StressPoint(name="all sites", estimate=everywhere, note=f"{len(sites)} sites, each with its own probe, score correlation")
    )
    return points + _neighbours(subject, sites, how)


def _sentence(points: list[StressPoint]) -> str:
    between = (
        f"probes of all sites agree to {points[3].estimate}" if len(points) > 3 else "the run read one site, so no others were compared"
    )
    return f"Refits on other draws of the rows score held-out rows alike to {points[0].estimate}; {between}."


def _seeds(subject: Subject, how: StressSettings) -> np.ndarray:
    part = subject.train
    rng = np.random.default_rng(how.seed)
    ids, group_of = np.unique(part.groups[part.development], return_inverse=True)
    weights = rng.multinomial(len(ids), np.full(len(ids), 1 / len(ids)), size=how.refits).T[group_of].astype(np.float64)
    targets = part.targets[part.development]
    weights = weights[:, [len(np.unique(targets[column > 0])) == 2 for column in weights.T]]
    x = subject.x
    scores = resampled_scores(
        subject.fitter, x[part.development], np.broadcast_to(targets[:, None], weights.shape), x[part.test], weights=weights,
        regularization=subject.strength_at(subject.site), classes=part.table.classes,
    )  # fmt: skip
    return scores.T


def _folds(subject: Subject, how: StressSettings) -> tuple[np.ndarray, np.ndarray]:
    part, x = subject.train, subject.x
    targets = part.targets[part.development]
    fold_of = group_folds(
        part.groups[part.development], targets, folds=subject.settings.folds, seed=how.seed, classes=part.table.classes
    )  # fmt: skip
    scores, directions = [], []
    for fold in range(subject.settings.folds):
        rows = part.development[fold_of != fold]
        readout = subject.refit(x[rows], part.targets[rows])
        scores.append(_plain(readout.scores(x[part.test])))
        directions.append(_plain(readout.weight[0]))
    return np.stack(scores), np.stack(directions)


def _sites(subject: Subject) -> np.ndarray:
    part, scores = subject.train, []
    for site in subject.sites:
        x = subject.activations[part.name][site]
        scores.append(_plain(subject.refit(x[part.development], part.targets[part.development], site=site).scores(x[part.test])))
    return np.stack(scores)


def _neighbours(subject: Subject, scores: np.ndarray, how: StressSettings) -> list[StressPoint]:
    here = subject.sites.index(subject.site)
    beside = [at for at in (here - 1, here + 1) if 0 <= at < len(scores)]
    return [
        StressPoint(name=f"with {subject.sites[at]}", estimate=_measure(subject, scores[[here, at]], how), note="score correlation")
        for at in beside
    ]


def _measure(subject: Subject, scores: np.ndarray, how: StressSettings) -> Estimate:
    found = agreement(scores=scores, groups=subject.train.groups[subject.train.test], level=how.level, seed=how.seed).pearson
    if found is None or not np.isfinite(found.value):
        raise InputError("some refit gives every held-out row the same score, so agreement is not defined.")
    return found


def _plain(values: torch.Tensor) -> np.ndarray:
    return values.detach().double().cpu().numpy()
