"""Could the probe have memorised its rows, or found as much in a model that knows nothing?"""

from transect.errors import InputError
from transect.measure import control_selectivity
from transect.report import NotTried, StressFinding, StressPoint
from transect.study.stress_test.settings import StressSettings
from transect.study.stress_test.subject import Subject

NAMES = {
    "untrained": "same architecture, random weights",
    "random_direction": "random directions",
    "shuffled_labels": "shuffled labels",
    "bag_of_words": "bag of words",
    "length": "text length",
}


def control_task_finding(subject: Subject, how: StressSettings) -> StressFinding | NotTried:
    """Accuracy on the label minus accuracy on random labels that are constant within a group."""
    part = subject.train
    try:
        found = control_selectivity(
            subject.x, part.targets, part.groups, fitter=subject.fitter, regularization=subject.strength_at(subject.site), level=how.level,
            resamples=how.resamples, seed=how.seed,
        )  # fmt: skip
    except InputError as error:
        return NotTried(name="control_task", reason=str(error))
    selective = found.selectivity.low > 0
    return StressFinding(
        name="control_task", question="Does it read the label, or could it remember the rows?", measure="accuracy",
        points=(StressPoint(name="random label for each group", estimate=found.control, difference=None, note=f"{found.draws} control tasks"),),
        status="holds" if selective and found.selectivity.value > found.real.value / 4 else "weakens" if selective else "unclear",
        sentence=found.sentence[:1].upper() + found.sentence[1:],
        rule="Rows are split inside groups here, so that a random label of a group can be remembered. It holds where the accuracy lost on the "
        "control tasks is surely above 0 and more than a quarter of the accuracy; weakens where it is above 0 but less.",
        source="Hewitt and Liang 2019, Designing and Interpreting Probes with Control Tasks", reference=found.real,
        reference_name="the label", chance=0.5,
    )  # fmt: skip


def controls_finding(subject: Subject) -> StressFinding | NotTried:
    """What the run's own controls scored on the same held-out rows."""
    baselines = subject.report.baselines
    points = []
    for name, title in NAMES.items():
        if name in baselines and (estimate := baselines[name].auroc) is not None:
            baseline = baselines[name]
            points.append(
                StressPoint(name=title, estimate=estimate, p=baseline.p, note=f"read at {baseline.site}" if baseline.site else "")
            )
    if not points:
        return NotTried(name="controls", reason="the run has no controls.")
    clear = [point for point in points if point.name != NAMES["random_direction"]]
    matched = [point.name for point in clear if point.estimate.high >= subject.home.low]
    missing = "" if "untrained" in baselines else " The untrained model was not read; probe again with --controls untrained."
    return StressFinding(
        name="controls", question="Do things that know nothing score as much?", measure="AUROC", points=tuple(points),
        status="fooled" if matched else "holds",
        sentence=(f"Not clearly below the probe: {', '.join(matched)}." if matched else "All of them stay clearly below the probe.") + missing,
        rule="Fooled where the interval of one of them reaches that of the probe. Single random directions scatter widely, so their band is "
        "shown but not judged.",
        source="the random-model control of the non-linear representation dilemma, and the run's own baselines", reference=subject.home,
        reference_name="the probe", chance=0.5,
    )  # fmt: skip
