"""Rows that a probe has not seen: what may be certified or measured on."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from transect.data import Table, concat, effective_groups
from transect.errors import InputError
from transect.linear import Readout
from transect.report import load_report
from transect.study.folder import REPORT
from transect.study.reopen import kept_table


def unseen(train: Table, tables: Mapping[str, Table]) -> tuple[dict[str, Table], dict[str, np.ndarray]]:
    """The rows that share neither a text (but for case, spaces and punctuation) nor a group with a training table.

    Args:
        train: the table the probe was fitted on.
        tables: by what they are, for the message.

    Returns:
        The rows that are left of each table, and their group numbers, shared by all tables.

    Raises:
        InputError: nothing is left of a table.
    """
    bare = [Table(name=what, texts=table.texts, groups=table.groups) for what, table in (("train", train), *tables.items())]
    numbers = np.split(effective_groups(concat(bare), near=False).ids, np.cumsum([len(table) for table in bare])[:-1])
    kept, ids = {}, {}
    for (what, table), own in zip(tables.items(), numbers[1:], strict=True):
        new = ~np.isin(own, numbers[0])
        if not new.any():
            raise InputError(
                f"all {len(table)} {what} share a text or a group with the probe's training table {train.name!r}, so none is left; give rows "
                f"that the probe has not seen."
            )
        kept[what], ids[what] = table.take(new), own[new]
    return kept, ids


def training_table(probe: str | os.PathLike[str], readout: Readout) -> Table | None:
    """The table that a saved probe was fitted on, if its run is beside it; None where nobody can tell.

    Args:
        probe: its file.
        readout: what the file holds.

    Raises:
        StoreError: the run beside it is damaged.
    """
    run = Path(probe).parent
    if not (run / REPORT).is_file():
        return None
    info = load_report(run).data.train
    return kept_table(run, info) if readout.origin.data.get("digest") == info.digest else None
