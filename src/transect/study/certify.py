"""A certified threshold for the probe of a finished run: from rows that it has never seen to a promise in writing."""

import dataclasses
import datetime
import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from transect._files import write_json, write_text
from transect.data import Table, read_table
from transect.decide import (
    Certificate,
    SequenceCertificate,
    SequenceStatistic,
    certify_sequences,
    certify_threshold,
    order_statistic,
    threshold_for_fpr,
    threshold_for_recall,
)
from transect.errors import InputError
from transect.linear import Readout
from transect.models import Model
from transect.report import load_report, render_html
from transect.study.certified import CERTIFICATE, Certified
from transect.study.folder import REPORT, RunFolder
from transect.study.reopen import kept_table, model_of
from transect.study.score import score_texts
from transect.study.unseen import unseen

_NEVER = float(np.finfo(np.float64).min) / 2


def certify(
    run: str | os.PathLike[str],
    negatives: Any,
    *,
    fpr: float | None = None,
    recall: float | None = None,
    confidence: float = 0.95,
    positives: Any = None,
    sequence: SequenceStatistic | None = None,
    horizon: int | None = None,
    model: Model | str | os.PathLike[str] | None = None,
    device: str = "auto",
    dtype: str | None = None,
    truncate: bool = False,
    shown: bool | None = None,
) -> Certified:
    """Certify a threshold of a run's probe on new rows, and write it into the run as ``certificate.json``.

    With ``fpr`` the threshold is the lowest whose false-positive rate is certified, and a ``recall`` is then certified (or not) at that
    threshold; with ``recall`` alone the threshold is the highest whose recall is certified. Rows that share a text (but for case, spaces
    and punctuation) or a group with any row of the run's training table are left out and counted. Rows of one group are not
    independent, and neither are copies of a text, so the promise is then about groups.

    Args:
        run: the folder that `transect.probe` wrote.
        negatives: a table, or anything `transect.read_table` takes. Without labels every row is negative; with the labels of the probe's
            classes, the rows of the positive class tell the recall.
        fpr: the false-positive rate to keep.
        recall: the recall to keep.
        confidence: of each promise.
        positives: another table, all of whose rows are positive.
        sequence: certify whole sequences by this statistic of their token scores, which an alarm can compute while tokens come in; the
            ``<bos>`` before a text is not counted. None certifies the score of the text as the probe reads it.
        horizon: with ``sequence`` and ``fpr``, watch only so many tokens.
        model: the model, or where to load it from; None loads what the run's report names.
        device: where to run it, when it is loaded here.
        dtype: the type to run it in, when it is loaded here.
        truncate: cut texts longer than the model's context instead of refusing them.
        shown: show a progress bar; None shows it on a terminal.

    Raises:
        SampleSizeError: too few independent rows; says how many are needed.
        InputError: neither rate was asked for, a recall without positives, labels that are not the probe's, or a probe that is not binary.
        MismatchError: the model is not the one that was probed.
        StoreError: the folder holds no finished run, or an old one that kept no tables.
    """
    if fpr is None and recall is None:
        raise InputError("expected a false-positive rate (fpr=, --fpr) or a recall (recall=, --recall) to certify, got neither.")
    if horizon is not None and (sequence is None or fpr is None):
        raise InputError(
            "a horizon is about the tokens of sequences with a certified false-positive rate; give sequence= and fpr= with it."
        )
    folder = RunFolder(path=Path(run))
    report = load_report(run)
    readout = Readout.load(folder.path / "probe.safetensors")
    if readout.classes is None or len(readout.classes) != 2:
        raise InputError(f"a threshold needs a probe of two classes, this one has {readout.classes or 'a number'}.")
    tables = _by_class(readout, read_table(negatives), None if positives is None else read_table(positives))
    if recall is not None and "positives" not in tables:
        raise InputError(
            "a recall needs positives: give positives= (--positives), or negatives with a label column that holds both classes."
        )
    train = kept_table(run, report.data.train)
    kept, ids = unseen(train, tables)
    # What so many rows can never certify is refused before the model is loaded.
    for rate, what in ((fpr, "negatives"), (None if recall is None else 1 - recall, "positives")):
        if rate is not None:
            order_statistic(len(np.unique(ids[what])), rate=rate, confidence=confidence)
    loaded = model_of(report, model, device=device, dtype=dtype)
    scored = {
        what: _scores(readout, loaded, table, ids[what], per_token=sequence is not None, truncate=truncate, shown=shown)
        for what, table in kept.items()
    }
    threshold, certificates = _certified(scored, fpr=fpr, recall=recall, confidence=confidence, sequence=sequence, horizon=horizon)
    named = {what: {"name": table.name, "source": table.source, "digest": table.digest, "n": len(table)} for what, table in kept.items()}
    made = Certified(
        threshold=threshold,
        fpr=certificates[0],
        recall=certificates[1],
        about={
            "model": {"name": report.model.name, "fingerprint": report.model.fingerprint},
            "probe": {"site": readout.origin.site, "tokens": readout.origin.tokens, "classes": list(readout.classes)},
            "reads": "the score of the text" if sequence is None else f"{sequence} of the token scores",
            "tables": named,
        },
        excluded={what: len(table) - len(kept[what]) for what, table in tables.items()},
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        transect=version("transect"),
    )
    write_json(folder.path / CERTIFICATE, made.to_json())
    # The pictures do not show the certificate, so only the page and the JSON are written again; the JSON last, as in `write_report`.
    linked = dataclasses.replace(load_report(run), certificate=CERTIFICATE)
    write_text(folder.path / "report.html", render_html(linked))
    write_json(folder.path / REPORT, linked.to_json())
    return made


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Scores:
    """Scores of one class: one for each text, or token scores in a row with the length of each text."""

    values: np.ndarray
    lengths: np.ndarray
    groups: np.ndarray | None


def _by_class(readout: Readout, negatives: Table, positives: Table | None) -> dict[str, Table]:
    """The negatives, and the positives where there are any, whether by label or as a table of their own."""
    if negatives.labels is None or readout.classes is None:
        return {"negatives": negatives} | ({} if positives is None else {"positives": positives})
    try:
        codes = negatives.codes_for(readout.classes)
    except InputError as error:
        raise InputError(f"{error} Or give the negatives without a label column: then every row is one.") from error
    if not (codes == 0).any():
        raise InputError(f"no row of {negatives.name!r} has the label {readout.classes[0]!r}, the negative class of this probe.")
    found = {"negatives": negatives.take(codes == 0)}
    if positives is not None:
        return {**found, "positives": positives}
    return found if (codes == 0).all() else {**found, "positives": negatives.take(codes == 1)}


def _scores(
    readout: Readout, model: Model, table: Table, ids: np.ndarray, *, per_token: bool, truncate: bool, shown: bool | None
) -> _Scores:
    scored = score_texts(readout, model, table, per_token=per_token, truncate=truncate, shown=shown)
    values, rows = scored.scores.double().cpu().numpy(), np.array(scored.rows)
    if per_token and scored.tokens is not None:
        # What stands before every text is no token of it, and its activation is like no other: it alone would set the threshold.
        begins = np.array(scored.tokens, dtype=object) == getattr(model.tokenizer, "bos_token", None)
        begins[1:] &= rows[1:] != rows[:-1]
        values, rows = values[~begins], rows[~begins]
    return _Scores(
        values=values,
        lengths=np.bincount(rows, minlength=len(table)),
        groups=ids if len(np.unique(ids)) < len(ids) else None,
    )


def _finite(peaks: np.ndarray) -> np.ndarray:
    """Sequences that end before the warm-up never fire: their peak is below every threshold, and still a number."""
    return np.maximum(peaks, _NEVER)


def _certified(
    scored: Mapping[str, _Scores],
    *,
    fpr: float | None,
    recall: float | None,
    confidence: float,
    sequence: SequenceStatistic | None,
    horizon: int | None,
) -> tuple[float, tuple[Certificate | SequenceCertificate | None, Certificate | None]]:
    """The threshold and its certificates."""
    no, yes = scored["negatives"], scored.get("positives")
    if fpr is None:
        if yes is None or recall is None:
            raise InputError("a recall needs positives.")
        rows = [part.values if sequence is None else _finite(sequence.peak(part.values, part.lengths)) for part in (yes, no)]
        chosen = threshold_for_recall(
            rows[0], recall=recall, confidence=confidence, groups=yes.groups, negatives=rows[1], negative_groups=no.groups
        )
        if chosen.threshold < _NEVER:
            short = int((rows[0] == _NEVER).sum())
            raise InputError(
                f"{short} of {len(rows[0])} positives are shorter than the warm-up of the {sequence} and can never fire, so no threshold keeps a "
                f"recall of {recall:g}; take a smaller size."
            )
        return chosen.threshold, (None, chosen)
    caught = None if yes is None else yes.values
    if sequence is None:
        made: Certificate | SequenceCertificate = threshold_for_fpr(
            no.values,
            fpr=fpr,
            confidence=confidence,
            groups=no.groups,
            positives=caught,
            positive_groups=None if yes is None else yes.groups,
        )
    else:
        made = certify_sequences(
            no.values, no.lengths, fpr=fpr, confidence=confidence, statistic=sequence, groups=no.groups, horizon=horizon
        )
        caught = None if yes is None else _finite(made.peaks(yes.values, yes.lengths))
    if recall is None or yes is None:
        return made.threshold, (made, None)
    promised = certify_threshold(made.threshold, caught, side="recall", target=recall, confidence=confidence, groups=yes.groups)
    return made.threshold, (made, promised)
