"""The store on disk: what its files are called and what is in them.

    store/
        manifest.json                   what was captured from what, and how; status "unfinished" or "complete"
        rows.parquet                    one row per row of activations
        000_layers[0].safetensors       one tensor [n, d] per site, rows in the order of the data
        000_layers[0].safetensors.part  the same while unfinished
        journal.txt                     while unfinished: the batches that are in, with a checksum each

The manifest is written last, so a store is complete or says that it is not. The journal's checksums are compared when a
capture goes on: a batch that did not reach the disk, because the power failed, is run again.
"""

import dataclasses
import json
import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from transect.errors import StoreError

FORMAT = 1
MANIFEST = "manifest.json"
ROWS = "rows.parquet"
JOURNAL = "journal.txt"
PART = ".part"
DTYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
"""The types that a store can hold, and what safetensors calls them."""


def dtype_name(dtype: torch.dtype) -> str:
    """For example ``float32``."""
    return str(dtype).removeprefix("torch.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """The file of one site."""

    site: str
    file: str
    n_rows: int
    width: int
    dtype: torch.dtype

    @classmethod
    def of(cls, index: int, site: str, *, n_rows: int, width: int, dtype: torch.dtype) -> "Shard":
        """The shard of the store's site number `index`, with a file name that every file system takes."""
        safe = re.sub(r"[^\w.\-\[\]]", "_", site)[:80]
        return cls(site=site, file=f"{index:03d}_{safe}.safetensors", n_rows=n_rows, width=width, dtype=dtype)

    @property
    def row_bytes(self) -> int:
        """The size of one row."""
        return self.width * self.dtype.itemsize

    @property
    def header(self) -> bytes:
        """What a safetensors file begins with: a length, then JSON, padded so that the numbers are aligned."""
        about = {"site": self.site, "axes": "n d", "format": str(FORMAT)}
        end = self.n_rows * self.row_bytes
        tensor = {"dtype": DTYPES[self.dtype], "shape": [self.n_rows, self.width], "data_offsets": [0, end]}
        text = json.dumps({"__metadata__": {"transect": json.dumps(about)}, self.site: tensor}).encode()
        text += b" " * (-(len(text) + 8) % 64)
        return len(text).to_bytes(8, "little") + text

    @property
    def size(self) -> int:
        """The size of the whole file."""
        return len(self.header) + self.n_rows * self.row_bytes

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` gives back an equal shard."""
        return {**dataclasses.asdict(self), "dtype": dtype_name(self.dtype)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Shard":
        """The inverse of `to_json`."""
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{key: item for key, item in value.items() if key in known} | {"dtype": getattr(torch, value["dtype"])})


def read_manifest(store: str | os.PathLike[str]) -> dict[str, Any] | None:
    """A store's manifest; None where nothing is there yet.

    Raises:
        StoreError: the path holds something else, or a manifest that is damaged or newer than this transect.
    """
    folder = Path(store)
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file; a store is a folder. Choose another path.")
    path = folder / MANIFEST
    if not path.is_file():
        others = sorted(entry.name for entry in folder.iterdir() if not _is_temporary(entry)) if folder.is_dir() else []
        if others:
            raise StoreError(
                f"{folder} is a folder that holds {', '.join(map(repr, others[:5]))} and no {MANIFEST}, so transect did not write it. "
                f"Choose a new folder for the store."
            )
        return None
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest["kind"] != "activations":
            raise KeyError("kind")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is damaged or not ours ({error}); it cannot be repaired. Capture into a new folder.") from error
    if manifest.get("format") != FORMAT:
        raise StoreError(f"{path} has format {manifest.get('format')!r}, this transect reads {FORMAT}. Upgrade transect to read it.")
    return manifest


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a store of activations, complete or not."""
    try:
        return read_manifest(path) is not None
    except StoreError:
        return False


def _is_temporary(entry: Path) -> bool:
    # A journal alone is what a kill at the very start leaves behind.
    return (entry.name.startswith(".") and entry.name.endswith(".tmp")) or entry.name == JOURNAL


def remove_temporaries(store: Path) -> None:
    """Remove what a killed process was writing and never will finish."""
    for entry in store.iterdir():
        if _is_temporary(entry) and entry.name != JOURNAL:
            entry.unlink(missing_ok=True)


def file_checksum(path: Path) -> int:
    """CRC-32 of a whole file, read in pieces."""
    crc = 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            crc = zlib.crc32(piece, crc)
    return crc
