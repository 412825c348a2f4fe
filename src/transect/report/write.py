"""Writing a report to a folder."""

import dataclasses
import os
from pathlib import Path

from transect._files import write_json, write_text
from transect.linear import Readout
from transect.report.codec import from_json
from transect.report.html import render_html
from transect.report.report import Report


def write_report(report: Report, folder: str | os.PathLike[str], *, readout: Readout | None = None) -> dict[str, Path]:
    """Write ``report.json``, ``report.html``, the pictures and the probe into a folder.

    Every file appears whole or not at all, and ``report.json`` comes last: a folder that has it has everything. What
    the JSON holds is checked against the records before anything is written.

    Args:
        report: what was found; its `files` are filled in.
        folder: where to write; made if it is missing, and files of the same names are replaced.
        readout: the chosen probe, written as ``probe.safetensors``.

    Returns:
        The path of each file by what it is: ``page``, ``json``, ``probe`` and the pictures.

    Raises:
        InputError: a number is NaN or infinite.
        StoreError: a value is not of the kind its record documents, or a file cannot be written.
    """
    from transect.report.images import write_images  # matplotlib is slow to import, and reading a report does not need it

    target = Path(folder)
    from_json(Report, report.to_json())
    paths = {"page": target / "report.html", "json": target / "report.json"}
    if readout is not None:
        paths["probe"] = target / "probe.safetensors"
        readout.save(paths["probe"])
    paths |= write_images(report, target)
    names = {what: path.name for what, path in paths.items() if what != "json"}
    complete = dataclasses.replace(report, files={**report.files, **names})
    write_text(paths["page"], render_html(complete))
    write_json(paths["json"], complete.to_json())
    return paths
