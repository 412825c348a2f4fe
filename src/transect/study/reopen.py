"""What a finished run needs to be gone on with: the model it read and the tables it kept."""

import os
from pathlib import Path

from torch import nn

from transect.data import Table, load_table
from transect.errors import InputError, MismatchError, StoreError
from transect.models import Model, load
from transect.report import Report
from transect.report.records import TableInfo
from transect.study.folder import RunFolder


def model_of(
    report: Report, model: Model | str | os.PathLike[str] | nn.Module | None = None, *, device: str = "auto", dtype: str | None = None
) -> Model:
    """The model that a run read.

    Args:
        report: of the run.
        model: the model, or where it is now; None loads it from where the report says.
        device: where to run it, when it is loaded here.
        dtype: the type to run it in, when it is loaded here.

    Raises:
        InputError: the run read a live module, so nothing says where it is.
        MismatchError: the model is not the one that was probed.
        ModelError: it is no longer there.
    """
    if model is None and report.model.source is None:
        raise InputError(
            f"the run read {report.model.name!r}, a model that was not loaded from anywhere; give the model itself (model=, --model)."
        )
    loaded = model if isinstance(model, Model) else load(model or report.model.source or "", device=device, dtype=dtype)
    if loaded.fingerprint != report.model.fingerprint:
        raise MismatchError(
            f"the run read {report.model.name} with fingerprint {report.model.fingerprint}, but {loaded.name} has "
            f"{loaded.fingerprint}. Give the model that was probed, or probe this one."
        )
    return loaded


def kept_table(run: str | os.PathLike[str], info: TableInfo) -> Table:
    """A table that a run kept, the very rows that its report is about.

    Args:
        run: its folder.
        info: what its report says of the table.

    Raises:
        StoreError: the run kept no such table, or its file holds other rows.
    """
    path = RunFolder(path=Path(run)).table(info.name)
    if not path.is_file():
        raise StoreError(
            f"{run} kept no table {info.name!r} ({path} is missing), so nobody can tell which rows the probe has seen. Run transect probe again "
            f"with --overwrite."
        )
    table = load_table(path)
    if table.digest != info.digest:
        raise StoreError(
            f"{path} is not the table that the report is about: expected digest {info.digest}, got {table.digest}. Probe it again."
        )
    return table
