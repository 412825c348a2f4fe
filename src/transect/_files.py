"""Writing files so that a reader never sees half of one.

Every file is written beside its destination under a temporary name and renamed into place, which POSIX and Windows
do atomically within one file system. When writing fails (a full disk, Ctrl-C) the temporary file is removed and the
destination is as it was.
"""

import contextlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from transect.errors import StoreError


@contextlib.contextmanager
def atomic_path(destination: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path in the destination's folder, renamed to the destination when the block ends well.

    Args:
        destination: the file to write; its folder is made if it is missing.

    Raises:
        StoreError: the operating system refused the write (disk full, no permission); names the file and the reason.
    """
    target = Path(destination)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(target)
    except OSError as error:
        raise StoreError(
            f"could not write {target}: {error.strerror or error}. Nothing was changed there; free some space or "
            f"choose another folder, and run again."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(destination: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic_path(destination) as path:
        path.write_text(text, encoding="utf-8")


def write_json(destination: str | os.PathLike[str], value: Mapping[str, Any]) -> None:
    """Write JSON atomically; NaN and infinity are refused, since JSON has no such numbers."""
    write_text(destination, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
