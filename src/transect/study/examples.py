"""What the chosen probe says of single rows: the spread of its scores, and the texts it got most wrong."""

import numpy as np

from transect.report import records
from transect.study.gathered import Gathered
from transect.study.prepare import Part, scored_rows

BINS = 40
MOST_WRONG = 5


def histograms(gathered: Gathered) -> tuple[records.Histogram, ...]:
    """The chosen probe's scores on every table, in common bins; for more than two classes, the score of the true class."""
    if gathered.judge.kind == "number":
        return ()
    shown = [(part, rows, _plain_scores(gathered, part, rows)) for part, rows in _scored(gathered)]
    everything = np.concatenate([scores for _, _, scores in shown])
    low, high = float(everything.min()), float(everything.max())
    edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
    binary = gathered.judge.kind == "binary"
    return tuple(
        records.Histogram(
            table=part.name,
            score="the probe's score (log-odds where it claims probabilities)" if binary else "the score of the true class",
            edges=tuple(edges.tolist()),
            counts={
                str(label): tuple(np.histogram(scores[part.targets[rows] == code], edges)[0].tolist())
                for code, label in enumerate(part.table.classes or ())
            },
            threshold=0.0 if binary else None,
        )
        for part, rows, scores in shown
    )


def most_wrong(gathered: Gathered) -> tuple[records.WrongText, ...]:
    """The rows of every table that the chosen probe got most wrong, the worst first; rows it got right are not listed."""
    found: list[records.WrongText] = []
    for part, rows in _scored(gathered):
        found += _wrong_rows(gathered, part, rows)
    return tuple(found)


def _scored(gathered: Gathered) -> list[tuple[Part, np.ndarray]]:
    main = gathered.parts.train
    fitted = np.unique(main.groups[main.development])
    pairs = [(main, main.test), *((part, scored_rows(part, fitted)) for part in gathered.parts.tests)]
    return [(part, rows) for part, rows in pairs if len(rows)]


def _plain_scores(gathered: Gathered, part: Part, rows: np.ndarray) -> np.ndarray:
    scores = gathered.found.readout.scores(gathered.activations[part.name][gathered.found.site][rows]).double().cpu().numpy()
    return scores if scores.ndim == 1 else scores[np.arange(len(rows)), part.targets[rows]]


def _wrong_rows(gathered: Gathered, part: Part, rows: np.ndarray) -> list[records.WrongText]:
    readout, table = gathered.found.readout, part.table
    x = gathered.activations[part.name][gathered.found.site][rows]
    scores = readout.scores(x).double().cpu().numpy()
    targets = part.targets[rows]
    if gathered.judge.kind == "number":
        error = np.abs(scores - targets)
        wrong = error > 0
        said, shown = scores, scores
    elif scores.ndim == 1:
        said = (scores > 0).astype(np.int64)
        error, wrong, shown = np.where(targets == 1, -scores, scores), said != targets, scores
    else:
        said = scores.argmax(axis=1)
        own = scores[np.arange(len(rows)), targets]
        error, wrong, shown = scores.max(axis=1) - own, said != targets, own
    chance = None if readout.link == "identity" else readout.probabilities(x).double().cpu().numpy()
    order = [index for index in np.argsort(-error, kind="stable") if wrong[index]][:MOST_WRONG]
    return [
        records.WrongText(
            table=part.name,
            row=int(rows[index]),
            text=table.texts[rows[index]],
            label=_label(part, float(targets[index])),
            predicted=_label(part, float(said[index])),
            score=float(shown[index]),
            probability=None if chance is None else float(chance[index, targets[index]]),
            group=None if table.groups is None else str(table.groups[rows[index]]),
        )
        for index in order
    ]


def _label(part: Part, code: float) -> str | bool | int | float:
    classes = part.table.classes
    return code if classes is None else classes[int(code)]
