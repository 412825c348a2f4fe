"""Reading a store."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from transect.capture.layout import MANIFEST, ROWS, Shard, file_checksum, read_manifest
from transect.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa


class StoredTensors(Mapping[str, torch.Tensor]):
    """The tensors of a store by site, each mapped into memory when first asked for.

    Nothing is read until a number is used, and the operating system may drop it again. The mapping is private: writing into
    such a tensor changes neither the store nor another mapping.

    Args:
        folder: the store.
        shards: its sites.
        checksums: site -> CRC-32 of its file, compared at the first reading; empty to trust the files.
    """

    def __init__(self, folder: Path, shards: Sequence[Shard], checksums: Mapping[str, int]) -> None:
        self._folder = folder
        self._shards = {shard.site: shard for shard in shards}
        self._checksums = checksums
        self._open: dict[str, torch.Tensor] = {}

    def __getitem__(self, site: str) -> torch.Tensor:
        if site not in self._open:
            self._open[site] = self._map(self._shards[site])
        return self._open[site]

    def __contains__(self, site: object) -> bool:
        return site in self._shards  # without opening

    def __iter__(self) -> Iterator[str]:
        return iter(self._shards)

    def __len__(self) -> int:
        return len(self._shards)

    def _map(self, shard: Shard) -> torch.Tensor:
        from safetensors import SafetensorError, safe_open

        path = self._folder / shard.file
        expected = self._checksums.get(shard.site)
        try:
            if expected is not None and file_checksum(path) != expected:
                raise _damaged(path, "its checksum differs from the manifest's")
            with safe_open(path, framework="pt", device="cpu") as file:
                tensor = file.get_tensor(shard.site)
        except (SafetensorError, OSError) as error:
            raise _damaged(path, str(error)) from error
        if tensor.dtype != shard.dtype or list(tensor.shape) != [shard.n_rows, shard.width]:
            raise _damaged(path, f"it holds {tensor.dtype} {list(tensor.shape)}")
        return tensor


def open_store(store: str | os.PathLike[str], *, check: bool) -> tuple[StoredTensors, "pa.Table", dict[str, Any]]:
    """The tensors, rows and provenance of a complete store.

    Raises:
        StoreError: as `Activations.open` says.
    """
    folder = Path(store)
    manifest = read_manifest(folder)
    if manifest is None:
        raise StoreError(
            f"there is no store at {folder}; expected a folder with a {MANIFEST}. Give the path that capture(store=...) was given."
        )
    if manifest["status"] != "complete":
        raise StoreError(
            f"the store {folder} is unfinished: its capture was interrupted. Run the same capture again with this store, and it goes on."
        )
    shards = [Shard.from_json(value) for value in manifest["sites"]]
    for shard in shards:
        path = folder / shard.file
        size = path.stat().st_size if path.is_file() else None
        if size != shard.size:
            raise _damaged(path, "it is missing" if size is None else f"it has {size:,} bytes, expected {shard.size:,}")
    checksums = {value["site"]: value["crc32"] for value in manifest["sites"]} if check else {}
    rows = _read_rows(folder / ROWS, manifest["n_rows"])
    return StoredTensors(folder, shards, checksums), rows, manifest["provenance"]


def _read_rows(path: Path, n_rows: int) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:  # `pq.read_table` would import pandas, wherever it is installed
            rows = file.read()
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, str(error)) from error
    if rows.num_rows != n_rows:
        raise _damaged(path, f"it has {rows.num_rows} rows, expected {n_rows}")
    return rows


def _damaged(path: Path, how: str) -> StoreError:
    return StoreError(f"{path} is damaged: {how}. Restore that file from a copy, or capture into a new folder.")
