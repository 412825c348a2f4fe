"""What is written beside activations: what they are of, under which conditions, and how it went."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from transect.capture.examples import Examples
from transect.capture.layout import dtype_name
from transect.errors import MismatchError
from transect.models import Model
from transect.sites import Place, TokenRule


def identity_of(
    *, model: Model, examples: Examples, places: Sequence[Place], rule: TokenRule, dtype: torch.dtype | None, chat: bool
) -> dict[str, Any]:
    """What activations are of: two captures with one identity give the same numbers, up to rounding."""
    return {
        "model": model.fingerprint,
        "data": examples.digest,
        "rows": len(examples),
        "sites": [place.name for place in places],
        "tokens": str(rule),
        "dtype": None if dtype is None else dtype_name(dtype),
        "chat": chat,
        "inputs": examples.inputs_digest(),
    }


def conditions_of(model: Model, *, batch_tokens: int, patience: int) -> dict[str, Any]:
    """What can change the last bits: a capture goes on only under the conditions under which it began."""
    return {
        "batch_tokens": batch_tokens,
        "patience": patience,
        "device": str(model.device) if model.device.type != "cuda" else torch.cuda.get_device_name(model.device),
        "attention": getattr(getattr(model.module, "config", None), "_attn_implementation", None),
        "versions": dict(_versions()),
    }


def check_same(what: str, then: Mapping[str, Any], now: Mapping[str, Any], *, advice: str) -> None:
    """Refuse to mix what does not belong together.

    Raises:
        MismatchError: says which fields differ, and both their values.
    """
    differing = [name for name in {**now, **then} if then.get(name) != now.get(name)]
    if len(differing) > 1 and "inputs" in differing:
        differing.remove("inputs")  # it follows from the others
    if differing:
        listed = "; ".join(f"{name}: then {_short(then.get(name))}, now {_short(now.get(name))}" for name in differing)
        raise MismatchError(f"{what} differs in {listed}. {advice}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:80]} ... {text[-30:]}"


@functools.cache  # looking versions up reads files
def _versions() -> Mapping[str, str]:
    import importlib.metadata

    found = {}
    for name in ("transect", "torch", "transformers", "safetensors"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def description_of(model: Model, examples: Examples) -> dict[str, Any]:
    """The model, the data and the tokenizer, in plain JSON values."""
    table, tokenizer = examples.table, model.tokenizer
    described: dict[str, Any] = {
        "model": {"name": model.name, "fingerprint": model.fingerprint, "dtype": dtype_name(model.dtype), "device": str(model.device)},
        "data": {
            "name": None if table is None else table.name,
            "source": None if table is None else table.source,
            "digest": examples.digest,
        },
        "n_texts": len(examples),
        "n_truncated": examples.n_truncated,
    }
    if examples.kind == "tokens" and tokenizer is not None:
        bos = getattr(tokenizer, "bos_token_id", None)
        described["tokenizer"] = {
            "class": type(tokenizer).__name__,
            "vocabulary": len(tokenizer),
            "bos_token": getattr(tokenizer, "bos_token", None),
            "starts_with_bos": bos is not None and bool((examples.ids[examples.offsets[:-1]] == bos).all()),
        }
    return described
