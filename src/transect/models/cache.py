"""The folder where transect keeps what it made once: converted models."""

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from transect.errors import StoreError

_ABANDONED_AFTER = 24 * 3600.0  # seconds; a conversion takes a minute, so what is older was killed


def cache_folder() -> Path:
    """The user's cache folder for transect; the environment variable TRANSECT_CACHE overrides it."""
    given = os.environ.get("TRANSECT_CACHE")
    if given:
        return Path(given).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("transect")


@contextlib.contextmanager
def atomic_folder(destination: Path) -> Iterator[Path]:
    """A temporary folder beside the destination, renamed to it when the block ends well.

    A kill in the middle leaves no half-made destination. When two processes make the same folder at once, the first
    one to finish wins and the other's work is thrown away.

    Raises:
        StoreError: the operating system refused the write; names the folder and the reason.
    """
    temporary = destination.with_name(f".{destination.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        temporary.mkdir(parents=True)
        _remove_abandoned(destination)
        yield temporary
        try:
            temporary.rename(destination)
        except OSError:
            if not destination.is_dir():
                raise
    except OSError as error:
        raise StoreError(
            f"could not write {destination}: {error.strerror or error}. Nothing was changed there; free some space, or choose another "
            f"folder with the environment variable TRANSECT_CACHE."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_abandoned(destination: Path) -> None:
    for folder in destination.parent.glob(f".{destination.name}.*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _ABANDONED_AFTER:
                shutil.rmtree(folder, ignore_errors=True)
