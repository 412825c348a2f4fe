"""Reading GGUF files, llama.cpp's format: checked first, then read through transformers, never packed.

Two things are done before transformers sees the file. Its header is read and every tensor's extent is compared with
the file's size, because a truncated file otherwise gives an unrelated error or, with memory maps, a crash. And a large
vocabulary is left out of a temporary copy, because transformers reads each of its entries several times in Python (two
minutes for Gemma's 262,144); the tokenizer is then read from the whole file, by its own class.
"""

import dataclasses
import math
import mmap
import os
import shutil
import struct
import tempfile
from pathlib import Path
from typing import Any

import torch

from transect.errors import MissingExtraError, ModelError
from transect.models.quiet import no_progress_bars

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY, _UINT32 = 8, 9, 4
_LARGE_VOCABULARY = 50_000
# The special tokens' ids stay: they belong to the configuration.
_VOCABULARY_LISTS = frozenset(f"tokenizer.ggml.{name}" for name in ("tokens", "scores", "token_type", "merges"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class GgufHeader:
    """What the beginning of a GGUF file says."""

    architecture: str
    alignment: int
    entries: tuple[tuple[str, int, int], ...]
    """The metadata entries: key, and where the entry starts and ends in the file."""
    n_vocabulary: int
    """How many tokens the vocabulary has; 0 when there is none."""
    states_vocabulary: bool
    """Whether the metadata give the vocabulary's size by itself."""
    n_tensors: int
    tensors_start: int
    """Where the table of tensors starts in the file."""
    tensors_end: int
    data_start: int
    """Where the weights start in the file."""


def read_gguf(path: Path, *, dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    """A model and its tokenizer from a GGUF file, with the weights unpacked.

    Args:
        path: the file.
        dtype: of the unpacked weights.

    Raises:
        ModelError: the file is no GGUF, is damaged or truncated, or transformers does not know its architecture.
        MissingExtraError: the package `gguf` is not installed.
    """
    header = read_header(path)
    from transformers import AutoConfig, AutoTokenizer

    try:
        with (
            no_progress_bars(),
            tempfile.TemporaryDirectory(dir=path.parent if _writable(path.parent) else None, prefix=".gguf-") as scratch,
        ):
            weights = _without_vocabulary(path, header, Path(scratch)) if _slow_vocabulary(header) else path
            config = AutoConfig.from_pretrained(str(weights.parent), gguf_file=weights.name)
            module = _model_class(config).from_pretrained(
                str(weights.parent), gguf_file=weights.name, config=config, dtype=dtype, **_unpacked()
            )
            tokenizers = _tokenizer_class(config) or AutoTokenizer
            tokenizer = tokenizers.from_pretrained(str(path.parent), gguf_file=path.name)
    except ImportError as error:
        raise MissingExtraError(f"reading GGUF files needs more packages ({error}); run: pip install 'transect[gguf]'.") from error
    except (ValueError, KeyError, IndexError, NotImplementedError, OSError, RuntimeError, TypeError) as error:
        raise ModelError(
            f"cannot load {path} (GGUF, architecture {header.architecture!r}): {type(error).__name__}: {error}. transformers reads fewer "
            f"architectures from GGUF than llama.cpp does; convert the original weights to a safetensors folder instead."
        ) from error
    if hasattr(module.config, "quantization_config"):
        del module.config.quantization_config  # names the file; the unpacked model no longer needs it
    return module, tokenizer


def read_header(path: Path) -> GgufHeader:
    """The header of a GGUF file, after checking that the file holds all that it promises.

    Raises:
        ModelError: the file is no GGUF, is damaged or truncated.
        MissingExtraError: the package `gguf`, which knows the sizes of packed weights, is not installed.
    """
    size = path.stat().st_size
    if size < 24:
        raise ModelError(f"{path} is no GGUF file: it has {size} bytes. Download it again.")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] != b"GGUF":
            raise ModelError(
                f"{path} is no GGUF file: it begins with {data[:4]!r}, not b'GGUF'. Download it again, or give a safetensors folder."
            )
        try:
            header, needed = _parse(data)
        except (struct.error, UnicodeDecodeError, ValueError, KeyError, IndexError, OverflowError) as error:
            raise ModelError(
                f"{path} is damaged or truncated: its header cannot be read ({type(error).__name__}: {error}). Download it again."
            ) from error
    if needed > size:
        raise ModelError(f"{path} is truncated: its weights need {needed:,} bytes, the file has {size:,}. Download it again.")
    return header


class _Cursor:
    """A place in the bytes that moves as values are read."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self.data, self.at = data, at

    def scalar(self, kind: str) -> Any:
        value = struct.unpack_from(f"<{kind}", self.data, self.at)[0]
        self.at += struct.calcsize(f"<{kind}")
        return value

    def string(self) -> str:
        length = self.skip_string()
        return self.data[self.at - length : self.at].decode("utf-8")

    def skip_string(self) -> int:
        length = self.scalar("Q")
        if self.at + length > len(self.data):
            raise ValueError("a text reaches past the end of the file")
        self.at += length
        return length

    def value(self, kind: int) -> Any:
        """A metadata value; of an array only the number of entries."""
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            return self.scalar(_SCALARS[kind])
        inner, count = self.scalar("I"), self.scalar("Q")
        if inner == _STRING:
            for _ in range(count):
                self.skip_string()
        elif inner == _ARRAY:
            for _ in range(count):
                self.value(_ARRAY)
        else:
            self.at += count * struct.calcsize(f"<{_SCALARS[inner]}")
        if self.at > len(self.data):
            raise ValueError("a list reaches past the end of the file")
        return count


def _parse(data: mmap.mmap) -> tuple[GgufHeader, int]:
    """The header, and how many bytes the file must have."""
    cursor = _Cursor(data, 4)
    version, n_tensors, n_entries = cursor.scalar("I"), cursor.scalar("Q"), cursor.scalar("Q")
    if version not in (2, 3):
        raise ValueError(f"GGUF version {version} in this machine's byte order; versions 2 and 3 are known")
    entries, values = [], {}
    for _ in range(n_entries):
        start = cursor.at
        key = cursor.string()
        values[key] = cursor.value(cursor.scalar("I"))
        entries.append((key, start, cursor.at))
    tensors_start = cursor.at
    extents = [_tensor_extent(cursor) for _ in range(n_tensors)]
    architecture, alignment = values["general.architecture"], values.get("general.alignment", 32)
    data_start = math.ceil(cursor.at / alignment) * alignment
    header = GgufHeader(
        architecture=architecture,
        alignment=alignment,
        entries=tuple(entries),
        n_vocabulary=values.get("tokenizer.ggml.tokens", 0),
        states_vocabulary=f"{architecture}.vocab_size" in values,
        n_tensors=n_tensors,
        tensors_start=tensors_start,
        tensors_end=cursor.at,
        data_start=data_start,
    )
    return header, data_start + max(extents, default=0)


def _tensor_extent(cursor: _Cursor) -> int:
    """Where one tensor ends, counted from the start of the weights."""
    try:
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
    except ImportError as error:
        raise MissingExtraError("reading GGUF files needs the package gguf; run: pip install 'transect[gguf]'.") from error
    cursor.skip_string()
    count = math.prod(cursor.scalar("Q") for _ in range(cursor.scalar("I")))
    block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(cursor.scalar("I"))]
    return cursor.scalar("Q") + count // block * block_bytes


def _slow_vocabulary(header: GgufHeader) -> bool:
    """Whether transformers would read a large vocabulary slowly; architectures with its new reader need it in place."""
    try:
        from transformers.integrations.gguf import GGUF_CONFIG_ARCHS as fast_architectures
    except ImportError:
        fast_architectures = {}
    return header.n_vocabulary > _LARGE_VOCABULARY and header.architecture not in fast_architectures


def _without_vocabulary(path: Path, header: GgufHeader, folder: Path) -> Path:
    """A copy of the file with the vocabulary's size in place of the vocabulary."""
    kept = [(start, end) for key, start, end in header.entries if key not in _VOCABULARY_LISTS]
    stated = b"" if header.states_vocabulary else _uint32_entry(f"{header.architecture}.vocab_size", header.n_vocabulary)
    target = folder / path.name
    with path.open("rb") as source, target.open("wb") as out:
        magic_and_version = source.read(8)
        out.write(magic_and_version + struct.pack("<QQ", header.n_tensors, len(kept) + bool(stated)))
        for start, end in [*kept, (header.tensors_start, header.tensors_end)]:
            if start == header.tensors_start:
                out.write(stated)
            source.seek(start)
            out.write(source.read(end - start))
        out.write(b"\0" * (-out.tell() % header.alignment))
        source.seek(header.data_start)
        shutil.copyfileobj(source, out, 1 << 22)
    return target


def _uint32_entry(key: str, value: int) -> bytes:
    name = key.encode()
    return struct.pack("<Q", len(name)) + name + struct.pack("<II", _UINT32, value)


def _unpacked() -> dict[str, Any]:
    """Newer transformers keep some architectures packed in 4 bits unless told otherwise."""
    try:
        from transformers import GgufConfig
    except ImportError:
        return {}
    return {"quantization_config": GgufConfig(dequantize=True)}


def _model_class(config: Any) -> Any:
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModel, AutoModelForCausalLM

    return AutoModelForCausalLM if type(config) in MODEL_FOR_CAUSAL_LM_MAPPING else AutoModel


def _tokenizer_class(config: Any) -> Any | None:
    """The tokenizer's own class: `AutoTokenizer` would read the whole header again just to find it."""
    from transformers import TOKENIZER_MAPPING

    found = TOKENIZER_MAPPING.get(type(config), None)
    return next((kind for kind in reversed(found) if kind is not None), None) if isinstance(found, tuple) else found


def _writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK)
