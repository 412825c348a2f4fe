"""The verdict's sentences: what a careful colleague would say about the evidence, with the numbers in it."""

from collections.abc import Iterable

from transect.measure.evidence import Comparison, Evidence
from transect.measure.transfer import Transfer

FEW_GROUPS = 20
"""With fewer held-out groups than this, the reader is warned."""

NEAR_CHANCE = 0.1
"""Closer to chance than this (on the scale of AUROC) is called near chance."""

BAD_CALIBRATION = 0.1
"""With a larger expected calibration error than this, the reader is warned."""


def text(evidence: Evidence, *, readable: bool | None, beyond_surface: bool | None, unbeaten: tuple[Comparison, ...]) -> str:
    """The whole verdict, in the order in which one would ask: readable? by the surface alone? elsewhere? so what? be wary of?"""
    sentences = [_readable(evidence, readable)]
    if readable:
        sentences += [_surface(evidence, unbeaten), _untrained(evidence, unbeaten)]
    sentences += [_transfers(evidence, readable), _conclusion(evidence, readable, beyond_surface), _cautions(evidence)]
    return " ".join(sentence for sentence in sentences if sentence)


def _readable(evidence: Evidence, readable: bool | None) -> str:
    test, metric = evidence.test, evidence.metric
    size = f" ({test.n} rows in {test.groups} groups)" if test.n and test.groups else ""
    score = f"{metric.title} {test} on held-out groups{size}"
    p = "" if evidence.permutation_p is None else f", p = {evidence.permutation_p:.2g} among shuffled labels"
    label, where = f"The label of {evidence.train}", f"at {evidence.site}"
    if readable:
        return f"{label} is readable {where}: {score}{p}."
    if readable is None:
        why = "shuffled labels do as well too often" if evidence.test.low > metric.chance and p else "the interval is too wide to tell"
        return f"Whether the label of {evidence.train} is readable {where} is unclear: {score}{p}, but {why}."
    below = " It lies below chance: what the probe learnt runs against the label in the groups held out."
    below = below if test.high < metric.chance else ""
    return f"{label} is not readable {where}: {score}, where guessing gives {metric.chance:.2f}{p}.{below}"


def _surface(evidence: Evidence, unbeaten: tuple[Comparison, ...]) -> str:
    if not evidence.surface:
        return "No surface baseline was run, so bag of words might do as well."
    rivals = [rival for rival in evidence.surface if rival in unbeaten]
    if rivals:
        best = max(rivals, key=lambda rival: rival.estimate.value)
        return f"But {best.title} alone reaches {best.estimate}, and the probe does not clearly lead it (by {best.difference})."
    reached = _and(f"{rival.title} {_reaches(index)}{rival.estimate.value:.2f}" for index, rival in enumerate(evidence.surface))
    return f"The surface of the text does not explain this: {reached}."


def _untrained(evidence: Evidence, unbeaten: tuple[Comparison, ...]) -> str:
    rival = evidence.untrained
    if rival is None:
        return ""
    subject = "The same architecture with random weights"
    if rival in unbeaten:
        return f"{subject} does about as well ({rival.estimate}): for this label the model's training added nothing that the probe uses."
    scale = evidence.metric.on_auroc_scale
    if scale(rival.estimate.value) - 0.5 >= (scale(evidence.test.value) - 0.5) / 2:
        return f"{subject} already reaches {rival.estimate}; training added {rival.difference}."
    return f"{subject} reaches only {rival.estimate}."


def _transfers(evidence: Evidence, readable: bool | None) -> str:
    by_status = {status: [t for t in evidence.transfers if t.status == status] for status in ("yes", "inverted", "no", "unclear")}
    carries = _and(f"{t.test} ({t.estimate})" for t in by_status["yes"])
    fails = _and(f"{t.test} ({t.estimate}: {_failure(t, evidence)})" for t in by_status["inverted"] + by_status["no"])
    open_ = _and(f"{t.test} ({t.estimate})" for t in by_status["unclear"]) if readable else ""
    sentences = [
        f"It carries over to {carries}." if carries else "",
        f"{'But it' if carries else 'It'} does not carry over to {fails}." if fails else "",
        f"Whether it carries over to {open_} is unclear." if open_ else "",
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _failure(transfer: Transfer, evidence: Evidence) -> str:
    if transfer.status == "inverted":
        return "inverted, there it says the opposite of the label"
    if abs(evidence.metric.on_auroc_scale(transfer.estimate.value) - 0.5) < NEAR_CHANCE:
        return "near chance"
    return "above chance but weak" if transfer.estimate.value > evidence.metric.chance else "somewhat below chance"


def _conclusion(evidence: Evidence, readable: bool | None, beyond_surface: bool | None) -> str:
    outcomes = {transfer.status for transfer in evidence.transfers}
    inverted = _and(transfer.test for transfer in evidence.transfers if transfer.status == "inverted")
    if readable is False:
        return "A linear probe finds nothing to report here, which does not mean that the model lacks it."
    if readable is None:
        return "More groups would narrow the interval; until then nothing is claimed."
    if inverted and evidence.meaning is not None:
        claim, shortcut = evidence.meaning.claim, evidence.meaning.shortcut
        same = f"In {evidence.train}, {claim} comes down to {shortcut}, and on {inverted} it is the other way round"
        return f"{same}; so the probe reads {shortcut}, not {claim}."
    if inverted:
        return (
            "So the probe does not read the label itself: it reads something that goes along with the label in "
            f"{evidence.train} and against it on {inverted}."
        )
    if beyond_surface is False:
        return "So this probe is no evidence that the model represents the label."
    if not outcomes:
        return f"It was tried on no other set, so it may read the label or anything that goes along with it in {evidence.train}."
    if outcomes == {"yes"}:
        return "So it reads the label, or something that goes along with it on every set tried."
    if "no" in outcomes:
        return f"So what it reads is tied to sets like {evidence.train}; do not take it for a general reader of the label."
    return "So it may read the label, but the other sets leave that open."


def _cautions(evidence: Evidence) -> str:
    notes = [note.rstrip(".") for note in (*evidence.leaks, *evidence.cautions)]
    if evidence.test.groups is not None and evidence.test.groups < FEW_GROUPS:
        notes.append(f"only {evidence.test.groups} groups were held out")
    if evidence.calibration_error is not None and evidence.calibration_error > BAD_CALIBRATION:
        notes.append(f"its probabilities are off by {evidence.calibration_error:.2f} on average, so calibrate before choosing a threshold")
    return f"Be careful: {'; '.join(notes)}." if notes else ""


def _reaches(index: int) -> str:
    return "reaches " if index == 0 else ""


def _and(items: Iterable[str]) -> str:
    listed = list(items)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}" if listed else ""
