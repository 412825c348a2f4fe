"""The folder of a run: never written over by accident, and gone on with only where that makes sense."""

import dataclasses
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transect._files import write_json
from transect.errors import InputError, StoreError

PLAN = "run.json"
REPORT = "report.json"


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """A folder that this run may write.

    Args:
        path: the folder.
    """

    path: Path

    def activations(self, name: str) -> Path:
        """Where the activations of one table are kept."""
        return self.path / "activations" / _safe(name)

    def table(self, name: str) -> Path:
        """Where one table is kept, so that a stress test reads what the probe read."""
        return self.path / "tables" / f"{_safe(name)}.parquet"


def _safe(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_.+" else "_" for letter in name)


def claim_folder(path: str | Path, plan: Mapping[str, Any], *, resume: bool, overwrite: bool, result: str = REPORT) -> RunFolder:
    """Take a folder for a run.

    Args:
        path: the folder; made if it is missing.
        plan: what is to be run, plain JSON values; a run goes on only with the plan it began with.
        resume: go on with a run that was stopped.
        overwrite: remove a run that is there.
        result: the file that a finished run has.

    Raises:
        InputError: both were asked for.
        StoreError: the folder holds a run (or something else) and neither was asked for, or a run with another plan.
    """
    if resume and overwrite:
        raise InputError("expected --resume or --overwrite, got both; resume keeps what is there, overwrite removes it.")
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file; give a folder with --out.")
    marker = folder / PLAN
    if folder.is_dir() and any(folder.iterdir()):
        if not marker.is_file():
            raise StoreError(
                f"{folder} is not empty and holds no run of transect, so nothing is written there. Give another folder with --out."
            )
        if not (resume or overwrite):
            state = "a finished run" if (folder / result).is_file() else "a run that was stopped"
            raise StoreError(f"{folder} already holds {state}. Use --resume to go on with it, --overwrite to replace it, or another --out.")
        if overwrite:
            shutil.rmtree(folder)
        else:
            _check_same_plan(marker, plan)
    write_json(marker, plan)
    return RunFolder(folder)


def _check_same_plan(marker: Path, plan: Mapping[str, Any]) -> None:
    try:
        before = json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{marker} cannot be read ({error}); use --overwrite to start again.") from error
    now = json.loads(json.dumps(plan))
    differing = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
    if differing:
        key = differing[0]
        raise StoreError(
            f"{marker.parent} holds a run with another {', '.join(differing)} ({key} was {before.get(key)!r}, now {now.get(key)!r}), "
            f"so it cannot be resumed. Use --overwrite to replace it, or another --out."
        )
