"""The test rows written differently: eight styles, negation, paraphrase, other entities; and what learning the styles buys.

Follows "Pressure-testing deception probes": a probe that is perfect on clean text may read its style, and a probe fitted to several styles
is scored on one that it has not seen.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from transect.data import Rewriting, Rewritten, rewrite_table, shift_rewritings, style_rewritings
from transect.data.rewriting.apply import LabelEffect
from transect.errors import InputError
from transect.linear import Readout
from transect.measure import Statistic, auroc_statistic
from transect.report import NotTried, StressFinding, StressPoint
from transect.report.stress import StressStatus
from transect.study.stress_test.judging import SCORE_RULE, listed, point_status, worst
from transect.study.stress_test.paired import PairedScore, paired_points
from transect.study.stress_test.settings import StressSettings
from transect.study.stress_test.subject import Reading, Subject

STYLE_SOURCE = "Pressure-testing deception probes across the Gemma 3 family (style distractors, style-augmented refits)"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Version:
    """The training table written differently, and read.

    Args:
        rewriting: how.
        rewritten: the rows that could be, and why others could not.
        activations: ``[m, d]`` of those rows at each site.
    """

    rewriting: Rewriting
    rewritten: Rewritten
    activations: Mapping[str, torch.Tensor]

    def rows_in(self, source: np.ndarray) -> np.ndarray:
        """Positions among the rewritten rows of those whose original is among these rows."""
        return np.flatnonzero(np.isin(self.rewritten.rows, source))

    @property
    def note(self) -> str:
        """What became of the rows that are not in it."""
        parts = [f"{count} rows: {reason}" for reason, count in self.rewritten.reasons.items()]
        if self.rewritten.n_unchanged:
            parts.append(f"{self.rewritten.n_unchanged} rows read the same")
        return "; ".join(parts)


def read_versions(subject: Subject, reading: Reading, how: StressSettings) -> tuple[list[Version], list[Version], list[NotTried]]:
    """Every rewriting of the training table that leaves both classes in the test rows: styles, shifts, and those that did not apply."""
    effects: dict[str, LabelEffect | None] = {"negation": how.negation, "entity_swap": how.entity_swap}
    made: dict[str, list[Version]] = {"style": [], "shift": []}
    skipped = []
    for family, rewritings in (("style", style_rewritings()), ("shift", shift_rewritings())):
        for rewriting in rewritings:
            rewritten = rewrite_table(subject.train.table, rewriting, seed=how.seed, label_effect=effects.get(rewriting.kind))
            held = np.flatnonzero(np.isin(rewritten.rows, subject.train.test))
            if rewritten.table is None or len(np.unique(_targets(subject, rewritten)[held])) < 2:
                reasons = listed([f"{count} rows: {reason}" for reason, count in rewritten.reasons.items()] or ["every row reads the same"])
                skipped.append(NotTried(name=rewriting.name, reason=f"it does not leave two classes among the held-out rows ({reasons})."))
                continue
            try:
                acts = reading.of(rewritten.table, label=rewriting.name)
            except InputError as error:  # written so, some text is longer than the model's context
                skipped.append(NotTried(name=rewriting.name, reason=str(error)))
                continue
            made[family].append(Version(rewriting=rewriting, rewritten=rewritten, activations=acts))
    return made["style"], made["shift"], skipped


def style_finding(subject: Subject, styles: Sequence[Version]) -> StressFinding:
    """The probe on every style, and the same fitter fitted to the other styles too."""
    alone = _points(subject, styles, {version.rewriting.name: subject.readout for version in styles})
    taught = {version.rewriting.name: _taught(subject, [other for other in styles if other is not version]) for version in styles}
    refits = _points(subject, styles, taught, series="refitted with the other styles") if len(styles) > 1 else []
    statuses: list[StressStatus] = [point_status(point, subject.home) for point in alone]
    lowest = min(alone, key=lambda point: point.estimate.value)
    failing = [point.name for point, status in zip(alone, statuses, strict=True) if status in ("fooled", "weakens")]
    sentence = f"The lowest of {len(alone)} styles is {lowest.name.replace('_', ' ')}, at {lowest.estimate}."
    sentence += f" It loses under {listed(failing)}." if failing else " No style surely costs it anything."
    if refits:
        mean = (np.mean([p.estimate.value for p in alone]), np.mean([p.estimate.value for p in refits]))
        sentence += f" Fitted to the other styles as well and scored on the unseen one, the mean over styles goes from {mean[0]:.3f} to {mean[1]:.3f}."
    return StressFinding(
        name="style", question="Does it survive another style?", measure="AUROC", points=(*alone, *refits), status=worst(statuses),
        sentence=sentence, rule=SCORE_RULE, source=STYLE_SOURCE, reference=subject.home, reference_name="clean text", chance=0.5,
    )  # fmt: skip


def style_by_site_finding(subject: Subject, styles: Sequence[Version]) -> StressFinding:
    """The mean over styles at every site, each with the probe that was fitted there on clean text."""
    part, points = subject.train, []
    for site in subject.sites:
        own = subject.activations[part.name][site]
        readout = (
            subject.readout if site == subject.site else subject.refit(own[part.development], part.targets[part.development], site=site)
        )
        statistics, groups = [], []
        for version in styles:
            held = version.rows_in(part.test)
            statistics.append((readout.scores(version.activations[site][held]), _targets(subject, version.rewritten)[held]))
            groups.append(part.groups[version.rewritten.rows[held]])
        scores, targets = torch.cat([scores for scores, _ in statistics]), np.concatenate([targets for _, targets in statistics])
        estimate = subject.judge.leading(scores, targets, np.concatenate(groups))
        points.append(StressPoint(name=site, estimate=estimate, n=len(targets), note="chosen site" if site == subject.site else ""))
    best = max(points, key=lambda point: point.estimate.value)
    here = next(point for point in points if point.name == subject.site)
    return StressFinding(
        name="style_by_site", question="Is another site steadier under all styles together?", measure="AUROC", points=tuple(points),
        status=point_status(here, subject.home),
        sentence=f"All styles pooled, the chosen site scores {here.estimate}; the best site is {best.name} with {best.estimate}. "
        f"This looks at test rows, so it may explain but not choose.",
        rule=SCORE_RULE, source=STYLE_SOURCE, reference=subject.home, reference_name="clean text, chosen site", chance=0.5,
    )  # fmt: skip


def shift_finding(subject: Subject, version: Version) -> StressFinding:
    """The probe on negated texts, on paraphrases, or on other entities; the label follows the meaning."""
    (point,) = _points(subject, [version], {version.rewriting.name: subject.readout})
    status = point_status(point, subject.home)
    question = {
        "negation": "Does it follow the label through a negation?",
        "paraphrase": "Does it survive a paraphrase?",
        "entity_swap": "Does it survive other entities?",
    }[version.rewriting.kind]
    said = "It says the opposite of the label there." if point.estimate.high < 0.5 else ""
    return StressFinding(
        name=version.rewriting.name, question=question, measure="AUROC", points=(point,), status=status,
        sentence=f"On {point.n} rewritten held-out rows it scores {point.estimate}, against {subject.home} as they were. {said}".strip(),
        rule=SCORE_RULE, source="rewriting by rules: " + version.rewriting.description, reference=subject.home,
        reference_name="clean text", chance=0.5,
    )  # fmt: skip


def _targets(subject: Subject, rewritten: Rewritten) -> np.ndarray:
    if rewritten.table is None or subject.train.table.classes is None:
        raise InputError(f"nothing is left of {subject.train.name!r} after {rewritten.rewriting}.")
    return rewritten.table.codes_for(subject.train.table.classes)


def _points(subject: Subject, versions: Sequence[Version], readouts: Mapping[str, Readout], *, series: str = "") -> list[StressPoint]:
    part, pairs = subject.train, []
    for version in versions:
        held = version.rows_in(part.test)
        source = version.rewritten.rows[held]
        readout = readouts[version.rewriting.name]
        scores = readout.scores(version.activations[subject.site][held])
        clean = subject.readout.scores(subject.x[source])
        new: Statistic = auroc_statistic(scores, _targets(subject, version.rewritten)[held])
        old: Statistic = auroc_statistic(clean, part.targets[source])
        left_out = len(part.test) - len(held)
        pairs.append(
            PairedScore(name=version.rewriting.name, new=new, old=old, groups=part.groups[source], n_excluded=left_out, note=version.note)
        )
    return paired_points(pairs, subject.judge, series=series)


def _taught(subject: Subject, others: Sequence[Version]) -> Readout:
    """The fitter on the development rows, clean and in the other styles."""
    part = subject.train
    x, targets = [subject.x[part.development]], [part.targets[part.development]]
    for version in others:
        rows = version.rows_in(part.development)
        x.append(version.activations[subject.site][rows])
        targets.append(_targets(subject, version.rewritten)[rows])
    return subject.refit(torch.cat(x), np.concatenate(targets))
