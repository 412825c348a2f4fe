"""Writing a store: rows on disk in a way that survives being killed."""

import contextlib
import itertools
import os
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import torch

from transect._files import atomic_path, write_json
from transect.capture.activations import Activations
from transect.capture.layout import FORMAT, JOURNAL, MANIFEST, PART, ROWS, Shard, file_checksum, remove_temporaries
from transect.capture.reader import StoredTensors
from transect.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa

_ENTRY = re.compile(rb"(\d+) ([0-9a-f]{8})")


class StoreSink:
    """Rows on disk, written to their final places at once; see `transect.capture.layout` for the files.

    Rows are written with ordinary writes: mapped pages would count as this process's memory until the disk has them.

    Args:
        folder: the store; made when missing.
        shards: its sites.
        rows: the table of rows.
        manifest: what `MANIFEST` holds besides the files.

    Raises:
        StoreError: the disk is full or refuses, there will not be room enough, or another process writes this store.
    """

    def __init__(self, folder: Path, shards: Sequence[Shard], rows: "pa.Table", manifest: Mapping[str, Any]) -> None:
        self._folder = folder
        self._shards = shards
        self._rows = rows
        self._manifest = {"format": FORMAT, "kind": "activations", **manifest, "axes": ["n", "d"], "n_rows": rows.num_rows}
        with self._writing():
            folder.mkdir(parents=True, exist_ok=True)
            self._journal = (folder / JOURNAL).open("a+b", buffering=0)
        try:
            with self._writing():
                _lock(self._journal, folder)
                remove_temporaries(folder)
                self._write_manifest("unfinished", [shard.to_json() for shard in shards])
                _write_rows(folder / ROWS, rows)
                self._check_room()
                for shard in shards:
                    self._prepare(shard)
                self._done = self._read_journal()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the store; what was put stays."""
        self._journal.close()

    def has(self, batch: int, targets: np.ndarray) -> bool:
        """Whether the journal has this batch, and the files hold what the journal says."""
        if batch not in self._done:
            return False
        crc = 0
        for site in range(len(self._shards)):
            crc = zlib.crc32(self._read(site, targets), crc)
        return crc == self._done[batch]

    def put(self, batch: int, targets: np.ndarray, values: Sequence[torch.Tensor]) -> None:
        """Write the rows to their places, then the journal."""
        crc = 0
        with self._writing():
            for shard, value in zip(self._shards, values, strict=True):
                data = _bytes_of(value)
                crc = zlib.crc32(data, crc)
                with self._part(shard).open("r+b", buffering=0) as file:
                    start = len(shard.header)
                    for first, last, row in _runs(targets):
                        file.seek(start + row * shard.row_bytes)
                        _write_all(file, data[first * shard.row_bytes : last * shard.row_bytes])
            _write_all(self._journal, memoryview(f"{batch} {crc:08x}\n".encode()))

    def get(self, site: int, targets: np.ndarray) -> torch.Tensor:
        """Read rows back."""
        shard = self._shards[site]
        return torch.frombuffer(bytearray(self._read(site, targets)), dtype=shard.dtype).reshape(len(targets), shard.width)

    def finish(self, provenance: Mapping[str, Any]) -> Activations:
        """Flush everything to the disk, give the files their final names, and declare the store complete."""
        with self._writing():
            listed = []
            for shard in self._shards:
                with self._part(shard).open("r+b") as file:
                    os.fsync(file.fileno())
                listed.append({**shard.to_json(), "crc32": file_checksum(self._part(shard))})
            for shard in self._shards:
                self._part(shard).replace(self._folder / shard.file)
            self._write_manifest("complete", listed, provenance=dict(provenance))
            self.close()
            (self._folder / JOURNAL).unlink()
        # The checksums were taken a moment ago, so they are not compared again.
        return Activations(tensors=StoredTensors(self._folder, self._shards, {}), rows=self._rows, provenance=provenance)

    def _part(self, shard: Shard) -> Path:
        return self._folder / (shard.file + PART)

    def _write_manifest(self, status: str, sites: list[dict[str, Any]], **more: Any) -> None:
        write_json(self._folder / MANIFEST, {**self._manifest, "status": status, "sites": sites, **more})

    def _check_room(self) -> None:
        here = sum(_allocated(self._folder / name) for shard in self._shards for name in (shard.file, shard.file + PART))
        need = sum(shard.size for shard in self._shards) - here
        free = shutil.disk_usage(self._folder).free
        if need > free:
            raise StoreError(
                f"the store {self._folder} needs {need / 1e6:,.1f} MB more, but the disk has {free / 1e6:,.1f} MB free. Free some space, "
                f"choose another folder, capture fewer sites, or store a smaller type such as dtype='bfloat16'."
            )

    def _prepare(self, shard: Shard) -> None:
        """A file of the full size, its numbers still holes; one from an earlier start is kept if it fits."""
        part, final = self._part(shard), self._folder / shard.file
        if final.exists() and not part.exists():
            final.replace(part)  # killed between the last renaming and the manifest
        if part.exists() and part.stat().st_size == shard.size:
            with part.open("rb") as file:
                if file.read(len(shard.header)) == shard.header:
                    return
        with part.open("wb") as file:
            file.write(shard.header)
            file.truncate(shard.size)

    def _read_journal(self) -> dict[int, int]:
        """Batch number -> checksum; a last line cut short by a kill is no entry."""
        self._journal.seek(0)
        text = self._journal.read()
        complete = text[: text.rfind(b"\n") + 1]
        if len(complete) < len(text):
            self._journal.truncate(len(complete))
        entries = filter(None, map(_ENTRY.fullmatch, complete.splitlines()))
        return {int(entry[1]): int(entry[2], 16) for entry in entries}

    def _read(self, site: int, targets: np.ndarray) -> bytes:
        shard = self._shards[site]
        pieces = []
        with self._part(shard).open("rb", buffering=0) as file:
            for first, last, row in _runs(targets):
                file.seek(len(shard.header) + row * shard.row_bytes)
                pieces.append(file.read((last - first) * shard.row_bytes))
        return b"".join(pieces)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"could not write to the store {self._folder}: {error.strerror or error}. What was captured before is kept: free some "
                f"space, or mend what is wrong, and run the same capture again; it goes on from there."
            ) from error


def _runs(targets: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Stretches of neighbouring rows: (first, last) in the batch, and the row where they begin in the file."""
    cuts = [0, *(np.flatnonzero(np.diff(targets) != 1) + 1).tolist(), len(targets)]
    for first, last in itertools.pairwise(cuts):
        yield first, last, int(targets[first])


def _bytes_of(value: torch.Tensor) -> memoryview:
    return value.contiguous().view(torch.uint8).numpy().data.cast("B")


def _write_all(file: IO[bytes], data: memoryview) -> None:
    """An unbuffered write may stop half-way, as on a disk that is nearly full; go on until it is done or refused."""
    while data:
        data = data[file.write(data) :]


def _write_rows(path: Path, rows: "pa.Table") -> None:
    import pyarrow.parquet as pq

    with atomic_path(path) as temporary:
        # Small row groups and no dictionaries: memory that does not grow with the number of rows.
        pq.write_table(rows, temporary, compression="zstd", use_dictionary=False, row_group_size=8192)


def _allocated(path: Path) -> int:
    """The bytes that a file, holes excluded, takes on the disk; where the system does not say, its size."""
    if not path.exists():
        return 0
    status = path.stat()
    return min(status.st_size, getattr(status, "st_blocks", status.st_size) * 512)


def _lock(file: IO[bytes], folder: Path) -> None:
    """Refuse to write beside another process; the lock goes with the process, however it ends. Not on Windows."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreError(f"another process is capturing into {folder}. Wait for it, or choose another folder.") from None
