"""One file format for every fitted object: a safetensors file whose metadata holds a JSON header.

The header's ``transect`` entry is ``{"format": 1, "kind": "Readout", ...}``; tensors are stored in their own dtype.
Anything that reads safetensors can read the numbers.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from transect._files import atomic_path
from transect.errors import StoreError

FORMAT = 1


def save_object(path: str | os.PathLike[str], *, kind: str, tensors: Mapping[str, torch.Tensor], header: Mapping[str, Any]) -> None:
    """Write one fitted object atomically.

    Args:
        path: the file to write.
        kind: the class of the object.
        tensors: its numbers, by field name; written contiguous, on the CPU.
        header: everything else, plain JSON values.

    Raises:
        StoreError: the file cannot be written.
    """
    text = json.dumps({"format": FORMAT, "kind": kind, **header}, allow_nan=False, ensure_ascii=False)
    stored = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    with atomic_path(path) as temporary:
        save_file(stored, temporary, metadata={"transect": text})


def load_object(path: str | os.PathLike[str], *, kind: str | None = None) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Read one fitted object back: its tensors and its header.

    Args:
        path: the file to read.
        kind: the class that is wanted; None takes any.

    Raises:
        StoreError: there is no such file, it is damaged, it is not ours, or it holds another kind of object.
    """
    if not Path(path).is_file():
        raise StoreError(f"there is no file {path}. Give the path of a file that transect wrote, such as runs/x/probe.safetensors.")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            text = (file.metadata() or {}).get("transect")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict, has no __iter__
    except (SafetensorError, OSError) as error:
        raise StoreError(f"{path} is not a readable safetensors file ({error}). It may be cut short: fetch or write it again.") from error
    if text is None:
        raise StoreError(f"{path} is a safetensors file, but transect did not write it: its metadata has no 'transect' entry.")
    header = json.loads(text)
    if header.get("format") != FORMAT:
        raise StoreError(f"{path} has format {header.get('format')!r}, this transect reads {FORMAT}. Upgrade transect to read it.")
    if kind is not None and header.get("kind") != kind:
        raise StoreError(f"{path} holds a {header.get('kind')}, expected a {kind}.")
    return tensors, header
