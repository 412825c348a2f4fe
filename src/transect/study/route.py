"""Routing queries between models by their own success probes: what `transect route` runs.

Each model has a probe that reads, before anything is generated, whether that model will answer rightly. The probabilities of all
models and their costs decide who answers (`transect.decide.route`). Where the table says which model was right, the whole is measured
(`transect.decide.evaluate_routing`).
"""

import csv
import dataclasses
import io
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transect._files import write_json, write_text
from transect.data import Table
from transect.decide import Routing, evaluate_routing, route
from transect.decide.routing import Rule
from transect.errors import InputError, TableError, near_matches
from transect.linear import Readout
from transect.measure import auroc_interval, brier, expected_calibration_error
from transect.models import Model
from transect.study.score import score_texts
from transect.study.unseen import training_table, unseen


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Routed:
    """Who answers each query, and what that is worth where it is known.

    Args:
        models: ``[m]`` names.
        texts: ``[n]``.
        probabilities: ``[n, m]``, of each model's success, by its probe.
        costs: ``[m]``.
        rule: of the routing.
        tradeoff: with which the queries were routed.
        tradeoff_from: where it came from, in words.
        chosen: ``[n]``, index of the model that answers.
        probes: per model, how good its probe is on these queries; empty where success is not known.
        routing: the measured curve; None where success is not known.
    """

    models: tuple[str, ...]
    texts: tuple[str, ...]
    probabilities: np.ndarray
    costs: tuple[float, ...]
    rule: Rule
    tradeoff: float
    tradeoff_from: str
    chosen: np.ndarray
    probes: tuple[dict[str, Any], ...] = ()
    routing: Routing | None = None

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Column names and one row per query, as text."""
        names = ["row", "text", *(f"p({name})" for name in self.models), "model"]
        rows = [
            [str(row), self.texts[row], *(f"{value:.4f}" for value in self.probabilities[row]), self.models[pick]]
            for row, pick in enumerate(self.chosen.tolist())
        ]
        return names, rows

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        shares = np.bincount(self.chosen, minlength=len(self.models)) / len(self.chosen)
        return {
            "schema": "transect.route/1",
            "models": list(self.models),
            "costs": list(self.costs),
            "rule": self.rule,
            "tradeoff": self.tradeoff,
            "tradeoff_from": self.tradeoff_from,
            "queries": len(self.texts),
            "shares": shares.tolist(),
            "mean_cost": float(np.asarray(self.costs)[self.chosen].mean()),
            "probes": list(self.probes),
            "routing": None if self.routing is None else self.routing.to_json(),
        }

    def write(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Write ``route.json``, ``route.csv`` and, where success is known, ``route.png``; each appears whole or not at all.

        Raises:
            StoreError: a file cannot be written.
        """
        written = [Path(folder) / "route.json", Path(folder) / "route.csv"]
        write_json(written[0], self.to_json())
        text = io.StringIO()
        names, rows = self.table()
        csv.writer(text).writerows([names, *rows])
        write_text(written[1], text.getvalue())
        if self.routing is not None:
            from transect.report.route_image import write_route_image

            written.append(Path(folder) / "route.png")
            write_route_image(self.routing, written[2])
        return tuple(written)


def success_probabilities(
    readout: Readout,
    model: Model,
    texts: Table,
    *,
    chat: bool = False,
    truncate: bool = False,
    force: bool = False,
    shown: bool | None = None,
) -> np.ndarray:
    """``[n]``: the probability that a model answers each text rightly, by its own probe.

    Args:
        readout: the probe; its second class means success.
        model: the model it was fitted on; the fingerprint is checked.
        texts: the queries.
        chat: as for `score_texts`.
        truncate: as for `score_texts`.
        force: as for `score_texts`.
        shown: show a progress bar; None shows it on a terminal.

    Raises:
        MismatchError: the probe was fitted on another model.
        InputError: the probe has no probabilities, or not two classes.
    """
    if readout.link != "logistic" or readout.classes is None:
        raise InputError(
            f"routing compares probabilities of success, but the probe of {model.name} has link {readout.link!r} and classes "
            f"{readout.classes}. Fit it with two classes (right or not) by Logistic, or calibrate it."
        )
    scored = score_texts(readout, model, texts, chat=chat, truncate=truncate, force=force, shown=shown)
    if scored.probabilities is None:
        raise InputError(f"the probe of {model.name} gives no probabilities; calibrate it first.")
    return scored.probabilities[:, 1].double().cpu().numpy()


def unseen_queries(table: Table, probes: Mapping[str, tuple[str, Readout]]) -> tuple[Table, tuple[str, ...]]:
    """The queries that no probe was fitted on, so that the curve is not flattered, and what was left out or could not be checked.

    Args:
        table: the queries.
        probes: name of each model -> its probe's file and what it holds.

    Raises:
        InputError: every query shares a text or a group with the rows that a probe was fitted on.
    """
    kept, notes = table, []
    for name, (file, readout) in probes.items():
        train = training_table(file, readout)
        if train is None:
            notes.append(
                f"Whether the probe of {name} was fitted on some of these queries could not be checked: its run is not beside {file}."
            )
            continue
        left = unseen(train, {"queries": kept})[0]["queries"]
        if len(left) < len(kept):
            notes.append(
                f"{len(kept) - len(left)} queries share a text or a group with rows that the probe of {name} was fitted on; left out."
            )
        kept = left
    return kept, tuple(notes)


def route_queries(
    texts: Table,
    probabilities: Any,
    costs: Sequence[float],
    *,
    models: Sequence[str],
    success: Sequence[str] | None = None,
    rule: Rule = "utility",
    tradeoff: float | None = None,
    folds: int = 5,
    seed: int = 0,
) -> Routed:
    """Route the queries of a table, and measure it where the table says which model was right.

    Args:
        texts: the queries; its groups are kept whole.
        probabilities: ``[n, m]``, a column per model from `success_probabilities`.
        costs: ``[m]``, of one answer of each model.
        models: ``[m]`` names.
        success: ``[m]`` columns of the table with 1 where that model was right and 0 where not; None where that is not known.
        rule: ``utility`` or ``adequate``, see `transect.decide.route`.
        tradeoff: None takes the one that is chosen by cross-fitting where success is known, and otherwise 0 for ``utility`` (the
            likeliest to be right) and 0.5 for ``adequate``.
        folds: of the cross-fitting.
        seed: of folds and resamples.

    Raises:
        TableError: a success column is missing or holds something other than 0 and 1 (the row is named).
        InputError: numbers of probes, costs, models and columns that differ; and as for `transect.decide.evaluate_routing`.

    Examples:
        >>> from transect.data import read_table
        >>> table = read_table([{"text": "1 + 1", "small": 1, "large": 1}, {"text": "17 * 23", "small": 0, "large": 1}] * 10)
        >>> chances = np.array([[0.9, 0.95], [0.1, 0.9]] * 10)
        >>> done = route_queries(table, chances, [1, 12], models=["A", "B"], success=["small", "large"])
        >>> done.routing.chosen.accuracy.value, round(done.routing.saving.value, 2)
        (1.0, 0.46)
    """
    chances = np.asarray(probabilities, dtype=np.float64)
    m = len(models)
    counts = {"costs": len(costs), "columns of probabilities": chances.shape[-1], "success columns": m if success is None else len(success)}
    for what, count in counts.items():
        if count != m:
            raise InputError(f"expected one for each of {m} models ({', '.join(models)}), got {count} {what}.")
    routing, probes = None, ()
    if success is not None:
        right = read_success(texts, success)
        n_groups = len(texts) if texts.groups is None else len(np.unique(texts.groups))
        routing = evaluate_routing(
            chances, right, costs, models=models, rule=rule, groups=texts.groups, folds=min(folds, n_groups), seed=seed
        )
        probes = tuple(_probe_quality(name, chances[:, j], right[:, j], texts.groups) for j, name in enumerate(models))
    used, source = tradeoff, "given"
    if used is None and routing is not None:
        used, source = routing.chosen.tradeoff, "median over folds of the one chosen on the other folds"
    if used is None:
        used, source = (0.0 if rule == "utility" else 0.5), "default, since success is not known"
    if not math.isfinite(used):
        raise InputError(f"tradeoff must be a number, got {used}.")
    return Routed(
        models=tuple(models),
        texts=texts.texts,
        probabilities=chances,
        costs=tuple(float(cost) for cost in costs),
        rule=rule,
        tradeoff=float(used),
        tradeoff_from=source,
        chosen=route(chances, costs, tradeoff=used, rule=rule),
        probes=probes,
        routing=routing,
    )


def read_success(table: Table, columns: Sequence[str]) -> np.ndarray:
    """``[n, m]`` of 0 and 1: whether each model answered each query rightly, from a column of the table for each.

    Raises:
        TableError: a column is missing (near matches are named) or holds something other than 0 and 1 (the row is named).
    """
    return np.stack([_zero_one(table, column) for column in columns], axis=1)


def _zero_one(table: Table, column: str) -> np.ndarray:
    """``[n]`` of 0 and 1 from a column of the table."""
    if column not in table.extra:
        raise TableError(f"the table {table.name!r} has no success column {column!r}: {near_matches(column, table.extra)}.")
    words = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}
    found = [words.get(str(value).strip().lower()) for value in table.extra[column]]
    wrong = [row for row, value in enumerate(found, start=1) if value is None]
    if wrong:
        raise TableError(
            f"the success column {column!r} must hold 0 and 1, got {table.extra[column][wrong[0] - 1]!r} in row {wrong[0]} (counted from 1); "
            f"{len(wrong)} rows are like it."
        )
    return np.array(found, dtype=np.int64)


def _probe_quality(name: str, chances: np.ndarray, right: np.ndarray, groups: Any) -> dict[str, Any]:
    """How good one model's probe is on these queries; no AUROC where the model was always or never right."""
    both = 0 < right.mean() < 1
    return {
        "model": name,
        "accuracy": float(right.mean()),
        "auroc": auroc_interval(chances, right, groups=groups).to_json() if both else None,
        "brier": float(brier(chances, right)),
        "expected_calibration_error": float(expected_calibration_error(chances, right)),
    }
