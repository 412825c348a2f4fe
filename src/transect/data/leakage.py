"""The leakage audit: ways in which a good score could come about without anything having been understood.

Rules for the severities, per check:

=======================  ==============================================  ===============================================
check                    warn                                            fail
=======================  ==============================================  ===============================================
balance                  rarest class under 20% (binary) or 10 rows      fewer than two different labels
duplicates               1% of rows repeat a text of another group       -
near_duplicates          1% of rows nearly repeat a text of another one  -
conflicting_labels       any text with two labels                        1% of rows
straddling_duplicates    -                                               any row repeats a text of another part or table
straddling_near          any row                                         1% of rows
straddling_groups        a group that train and a test table share       a group in two parts of one table
length, words            AUROC 0.60 or correlation 0.30 (and p < 0.01)   AUROC 0.75 or correlation 0.50 (and p < 0.01)
=======================  ==============================================  ===============================================

Duplicates within a table are no leak as long as splits keep them together, which ours do; they are counted because they
make a table smaller than it looks. A near duplicate counts only where the two texts are in different given groups.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from transect.data.findings import EXAMPLES, Finding, Leakage, Severity, cut
from transect.data.grouping import factorize
from transect.data.overlap import Texts, between_parts, between_tables, near_examples
from transect.data.surface import SIGNIFICANT, Surface, length_surface, word_surface
from transect.data.table import Table
from transect.errors import InputError


def audit(train: Table, tests: Mapping[str, Table] | None = None, *, parts: np.ndarray | None = None) -> Leakage:
    """Look for leaks in a training table, in test tables, and between them. Takes seconds for 100,000 short texts.

    Args:
        train: ``n`` rows.
        tests: other tables that a probe trained on `train` is tested on, by name.
        parts: ``[n]`` which part (a fold number, True for held out, or a split's name) each training row is in; rows of
            different parts must share neither text nor group. The table's own splits when left out.

    Raises:
        InputError: parts of another length than the table.

    Examples:
        >>> from transect.data import read_table
        >>> found = audit(read_table("cities"), {"neg_cities": read_table("neg_cities")})
        >>> found.severity
        'warn'
        >>> found.sentences[0]
        'groups of neg_cities that are also in cities: 142 of 142; score it on groups that were not trained on.'
    """
    parts = train.splits if parts is None else np.asarray(parts)
    if parts is not None and len(parts) != len(train):
        raise InputError(f"parts needs one value per row of {train.name!r}, {len(train)} in all; got {len(parts)}.")
    tables = {train.name: train}
    for name, table in (tests or {}).items():
        # A test table may go by the name of the training table, as when a table is tested on itself.
        tables[name if name not in tables else f"{name} (test)"] = table
    texts = Texts(tables)
    findings: list[Finding] = []
    for name, table in tables.items():
        findings += _within(name, table, texts)
    if parts is not None:
        findings += between_parts(train, factorize(parts), texts)
    for name in list(tables)[1:]:
        findings += between_tables(train.name, name, texts)
    return Leakage(findings=tuple(findings))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _within(name: str, table: Table, texts: Texts) -> Iterator[Finding]:
    if table.labels is not None:
        yield _balance(name, table)
    yield _duplicates(name, table, texts)
    yield _near(name, table, texts)
    if table.labels is None:
        return
    yield _conflicts(name, table)
    if len(set(table.labels.tolist())) > 1:
        groups = texts.row_groups(name)
        yield _surface("length", name, table, length_surface(table, groups))
        yield _surface("words", name, table, word_surface(table, groups))


def _balance(name: str, table: Table) -> Finding:
    n = len(table)
    labels = np.asarray(table.targets)
    if table.kind == "number":
        low, middle, high = (float(value) for value in np.quantile(labels, [0, 0.5, 1]))
        severity: Severity = "fail" if low == high else "ok"
        numbers = {"rows": n, "min": low, "median": middle, "max": high}
        sentence = f"rows of {name}: {n:,}, labels from {low:g} to {high:g}, median {middle:g}."
        return Finding(check="balance", table=name, severity=severity, sentence=sentence, numbers=numbers)
    classes = table.classes or ()
    counts = np.bincount(table.codes, minlength=len(classes))
    rarest = int(counts.min())
    few = rarest < 0.2 * n if table.kind == "binary" else rarest < 10
    severity = "fail" if (counts > 0).sum() < 2 else "warn" if few else "ok"
    shown = ", ".join(f"{count:,} {value}" for value, count in list(zip(classes, counts.tolist(), strict=True))[:10])
    more = f" and {len(classes) - 10} more classes" if len(classes) > 10 else ""
    return Finding(
        check="balance",
        table=name,
        severity=severity,
        sentence=f"rows of {name}: {n:,}, of them {shown}{more}.",
        numbers={"rows": n, "counts": {str(value): count for value, count in zip(classes, counts.tolist(), strict=True)}},
    )


def _duplicates(name: str, table: Table, texts: Texts) -> Finding:
    ids, first, counts = np.unique(texts.ids[name], return_index=True, return_counts=True)
    repeats = len(table) - len(ids)
    some = np.flatnonzero(counts > 1)[:EXAMPLES]
    examples = [{"text": cut(table.texts[first[at]]), "times": int(counts[at])} for at in some.tolist()]
    sentence = f"no text of {name} occurs twice."
    if repeats:
        sentence = f"rows of {name} that repeat an earlier text: {repeats:,} of {len(table):,}; our splits keep copies together."
    severity: Severity = "warn" if repeats >= 0.01 * len(table) and repeats else "ok"
    numbers = {"rows": len(table), "different": len(ids), "repeats": repeats}
    return Finding(check="duplicates", table=name, severity=severity, sentence=sentence, numbers=numbers, examples=tuple(examples))


def _near(name: str, table: Table, texts: Texts) -> Finding:
    if texts.skipped:
        return Finding(check="near_duplicates", table=name, severity="warn", sentence=f"{name}: {texts.skipped}")
    pairs = texts.near_between(name, name)
    rows = int(np.isin(texts.ids[name], pairs).sum())
    sentence = f"no two texts of {name} in different groups are nearly the same."
    if rows:
        sentence = (
            f"rows of {name} that are near duplicates of a text in another group: {rows:,} of {len(table):,}; our splits join those groups."
        )
    severity: Severity = "warn" if rows >= 0.01 * len(table) and rows else "ok"
    examples = near_examples(texts, pairs[pairs[:, 0] < pairs[:, 1]])
    return Finding(check="near_duplicates", table=name, severity=severity, sentence=sentence, numbers={"rows": rows}, examples=examples)


def _conflicts(name: str, table: Table) -> Finding:
    """The same text but for white space, with two labels. Case and punctuation may carry the label, so they count."""
    labels: dict[str, set[Any]] = {}
    keys = [" ".join(text.split()) for text in table.texts]
    for key, label in zip(keys, np.asarray(table.labels).tolist(), strict=True):
        labels.setdefault(key, set()).add(label)
    torn = {key for key, values in labels.items() if len(values) > 1}
    if table.kind == "number":
        # Two measurements of one thing differ a little; that is noise and no contradiction.
        apart = 0.1 * float(np.std(table.targets))
        torn = {key for key in torn if max(labels[key]) - min(labels[key]) > apart}
    rows = sum(key in torn for key in keys)
    sentence = f"no text of {name} has two different labels."
    if torn:
        sentence = (
            f"texts of {name} with different labels in different rows: {len(torn):,} ({rows:,} rows); no probe can be right on all of them."
        )
    severity: Severity = "ok" if not torn else "fail" if rows >= 0.01 * len(table) else "warn"
    examples = tuple({"text": cut(key), "labels": sorted(map(_plain, labels[key]), key=repr)} for key in sorted(torn)[:EXAMPLES])
    return Finding(
        check="conflicting_labels",
        table=name,
        severity=severity,
        sentence=sentence,
        numbers={"texts": len(torn), "rows": rows},
        examples=examples,
    )


def _surface(check: str, name: str, table: Table, found: Surface) -> Finding:
    number = table.kind == "number"
    warn, fail = (0.3, 0.5) if number else (0.6, 0.75)
    measure = "|correlation|" if number else "AUROC"
    what = "text length" if check == "length" else f"the single word {found.feature!r}"
    if found.tried == 0:
        return Finding(check=check, table=name, severity="ok", sentence=f"no word of {name} is frequent enough to be tried alone.")
    significant = found.p < SIGNIFICANT
    severity: Severity = "ok" if not significant or found.strength < warn else "fail" if found.strength >= fail else "warn"
    verdict = {"ok": "says little about", "warn": "helps to guess", "fail": "largely gives away"}[severity]
    chance = "" if check == "length" else f", the best of {found.tried:,} tried"
    whose = "the label" if found.target is None or table.kind == "binary" else f"the class {found.target!r}"
    sentence = f"{what} alone {verdict} {whose} of {name}: {measure} {found.strength:.2f}{chance}, p = {found.p:.2g}."
    numbers = {
        ("correlation" if number else "auroc"): found.strength,
        "p": found.p,
        "tried": found.tried,
        "rows": found.rows,
        "class": _plain(found.target),
        **({"word": found.feature} if check == "words" else {}),
    }
    return Finding(check=check, table=name, severity=severity, sentence=sentence, numbers=numbers)
