"""Everything a study gathers before it writes its report."""

import dataclasses
from collections.abc import Mapping

from transect.capture import Activations
from transect.data import Leakage
from transect.measure import Correction, Estimate
from transect.models import Model
from transect.study.controls import Control, Untrained
from transect.study.prepare import Cast
from transect.study.search import Search
from transect.study.settings import Settings
from transect.study.statistics import Judge
from transect.study.transfers import Pair


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Gathered:
    """Everything that the report is made of.

    Args:
        model: that was read.
        parts: the tables, and the parts of their rows.
        settings: of the study.
        judge: the metric.
        activations: of each table, by its name.
        leakage: the audit.
        found: the main search.
        correction: for having chosen the best.
        others: other fitters' searches.
        bare: the same search on an untrained model; None where that control was not run.
        controls: by name.
        stability: agreement of bootstrap refits.
        pairs: the transfer matrix.
        seconds: of each stage.
        command: the command line.
    """

    model: Model
    parts: Cast
    settings: Settings
    judge: Judge
    activations: Mapping[str, Activations]
    leakage: Leakage
    found: Search
    correction: Correction
    others: tuple[Search, ...]
    bare: Untrained | None
    controls: Mapping[str, Control]
    stability: Estimate
    pairs: tuple[Pair, ...]
    seconds: Mapping[str, float]
    command: tuple[str, ...]
