"""One direction or many: probes of k dimensions against the single one, and how many directions hold the label one after another."""

import numpy as np

from transect.errors import InputError, SampleSizeError
from transect.measure import compare_ranks, count_directions
from transect.report import NotTried, StressFinding, StressPoint
from transect.study.stress_test.settings import StressSettings
from transect.study.stress_test.subject import Subject


def rank_finding(subject: Subject, how: StressSettings) -> StressFinding | NotTried:
    """Probes inside the best k dimensions, with a null that refits everything under shuffled labels."""
    x, labels, groups, held = _rows(subject)
    ranks = [rank for rank in how.ranks if rank < min((~held).sum(), x.shape[1])]
    try:
        found = compare_ranks(
            x, labels, ranks=ranks, groups=groups, held_out=held, shuffles=how.permutations, level=how.level, resamples=how.resamples,
            seed=how.seed,
        )  # fmt: skip
    except (InputError, SampleSizeError) as error:
        return NotTried(name="dimensions", reason=str(error))
    points = tuple(
        StressPoint(name=f"k = {rank.k}", estimate=rank.auroc, p=rank.p_joint, n=found.n_held_out, note=f"shuffled labels {rank.null}")
        for rank in found.ranks
    )
    status = "unclear" if found.k_star is None else "holds" if found.k_star == 1 else "weakens"
    return StressFinding(
        name="dimensions", question="Is one direction enough?", measure="AUROC", points=points, status=status, sentence=_upper(found.sentence),
        rule=f"k* is {found.rule} It holds where k* is 1, weakens where it takes more, and is unclear where no k passes.",
        source="Pressure-testing deception probes (k-dimensional probes with permutation nulls)", reference=found.full,
        reference_name="ridge regression on everything", chance=0.5,
    )  # fmt: skip


def count_finding(subject: Subject, how: StressSettings) -> StressFinding | NotTried:
    """Directions that hold the label, found one after another, each without those before it."""
    x, labels, groups, held = _rows(subject)
    try:
        found = count_directions(
            x, labels, groups=groups, held_out=held, most=how.most_directions, shuffles=max(how.permutations, 199), level=how.level,
            resamples=how.resamples, seed=how.seed,
        )  # fmt: skip
    except (InputError, SampleSizeError) as error:
        return NotTried(name="direction_count", reason=str(error))
    shown = _spread(len(found.steps))
    points = tuple(
        StressPoint(name=f"step {step + 1}", estimate=found.steps[step].auroc, p=found.steps[step].p, n=found.n_held_out) for step in shown
    )
    more = "" if len(shown) == len(found.steps) else f" {len(shown)} of {len(found.steps)} steps are shown."
    return StressFinding(
        name="direction_count", question="How many directions hold the label?", measure="AUROC", points=points,
        status="holds" if found.n_directions == 1 else "weakens" if found.n_directions > 1 else "unclear",
        sentence=_upper(found.sentence) + more + " Erasing one direction would not hide the label." * (found.n_directions > 1),
        rule=f"Counted: {found.rule}. It holds where one direction is all there is, and weakens where erasing or watching one leaves others. "
        f"A count is no dimension of the concept: it grows with noise and with rows.",
        source="Ravfogel et al. 2020, Null It Out; Caught in the Act", reference=subject.home, reference_name="the probe", chance=0.5,
    )  # fmt: skip


def _rows(subject: Subject) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    part = subject.train
    held = np.isin(np.arange(len(part.table)), part.test)
    return subject.x.double().cpu().numpy(), part.targets, part.groups, held


def _spread(n: int, most: int = 12) -> list[int]:
    """At most so many of n steps: the first ones, the last, and some between."""
    return sorted({*range(min(n, most // 2)), *np.linspace(0, n - 1, min(n, most)).round().astype(int).tolist()})


def _upper(sentence: str) -> str:
    return sentence if sentence.startswith("k =") else sentence[:1].upper() + sentence[1:]
