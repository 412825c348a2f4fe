"""`Evidence`: everything that a verdict looks at, gathered in one record."""

import dataclasses

from transect.measure.estimate import Estimate
from transect.measure.metric import AUROC, Metric
from transect.measure.transfer import Transfer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """Something the probe is compared with, on the same test rows.

    Args:
        title: its name in sentences, for example "bag of words".
        estimate: what it scores.
        difference: the probe's score minus its score, paired.
    """

    title: str
    estimate: Estimate
    difference: Estimate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Meaning:
    """What a set's label says, and what else always goes with it in that set; both as "whether ..." clauses.

    Args:
        claim: what the label says, for example "whether the statement is true".
        shortcut: what decides it in this set, for example "whether the city and the country match".
    """

    claim: str
    shortcut: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known about a probe.

    Args:
        train: name of the set it was made on.
        site: where it reads.
        test: its score on held-out groups of that set; ``n`` and ``groups`` filled.
        metric: what was measured.
        permutation_p: p value among shuffled labels; None where they were not run.
        surface: baselines that see the text only.
        untrained: the same probe on the same architecture with random weights; None where that control was not run.
        transfers: what it scored on other sets.
        meaning: what the label says and what goes with it in this set; None where nobody said.
        leaks: what the leakage audit failed on, a sentence each.
        cautions: anything else to be wary of, a sentence each, such as a choice at the edge of what was tried.
        calibration_error: expected calibration error of its probabilities; None where it claims none.
    """

    train: str
    site: str
    test: Estimate
    metric: Metric = AUROC
    permutation_p: float | None = None
    surface: tuple[Comparison, ...] = ()
    untrained: Comparison | None = None
    transfers: tuple[Transfer, ...] = ()
    meaning: Meaning | None = None
    leaks: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    calibration_error: float | None = None
