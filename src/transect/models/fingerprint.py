"""The fingerprint of a model: does this object belong to the model in front of it?

A fitted probe or a store of activations is worth nothing on another model. Reading every weight would take longer than
loading them, so the fingerprint reads a sample: the configuration, the name, shape, type and up to 1,024 evenly spaced
values of every weight, the vocabulary's size and up to 1,024 of its entries, the chat template, and how one fixed
sentence is tokenised. Training, merging, quantising or casting changes values everywhere and is seen; an edit of a few
chosen values in one large matrix may fall between the samples and is not.
"""

import hashlib
import json
from typing import Any

import torch
from torch import nn

_SAMPLES = 1024
_PROBE = "The fingerprint of 12 models, naïve  or not:\n\tdon't guess – 测 🙂."
# Where a model was stored, how it is run and what is printed about it does not change what it computes.
_INCIDENTAL = frozenset(
    {
        "_name_or_path",
        "_commit_hash",
        "_attn_implementation",
        "_attn_implementation_autoset",
        "architectures",
        "dtype",
        "torch_dtype",
        "transformers_version",
        "use_cache",
        "output_attentions",
        "output_hidden_states",
        "return_dict",
        "chunk_size_feed_forward",
        "id2label",
        "label2id",
        "problem_type",
    }
)


def fingerprint(module: nn.Module, tokenizer: Any | None = None) -> str:
    """32 hex digits that change with configuration, weights and tokenizer, as far as the sample sees.

    Args:
        module: the part of the model that makes the activations, without its head: the same for the bare model and for
            the model with a language-model head.
        tokenizer: a Hugging Face tokenizer, or None.

    Examples:
        >>> from torch import nn
        >>> net = nn.Linear(2, 2)
        >>> before = fingerprint(net)
        >>> _ = nn.init.zeros_(net.bias)
        >>> before == fingerprint(net)
        False
    """
    digest = hashlib.blake2b(digest_size=16)
    digest.update(_canonical(_config(module)))
    for name, tensor in module.state_dict().items():
        if isinstance(tensor, torch.Tensor):  # some quantised modules keep other things in their state
            digest.update(_canonical([name, list(tensor.shape), str(tensor.dtype)]))
            digest.update(_sample(tensor))
    if tokenizer is not None:
        digest.update(_canonical(_tokenizer(tokenizer)))
    return digest.hexdigest()


def _config(module: nn.Module) -> Any:
    config = getattr(module, "config", None)
    if config is None or not callable(getattr(config, "to_dict", None)):
        return type(module).__name__
    return _without(config.to_dict())


def _without(value: Any) -> Any:
    """A configuration without its incidental entries, at every depth."""
    if isinstance(value, dict):
        return {str(key): _without(item) for key, item in value.items() if key not in _INCIDENTAL}
    if isinstance(value, list | tuple):
        return [_without(item) for item in value]
    return value


def _sample(tensor: torch.Tensor) -> bytes:
    """Up to 1,024 evenly spaced values, first and last included, as bytes; nothing for weights that are offloaded."""
    count = tensor.numel()
    if count == 0 or tensor.is_meta:
        return b""
    places = torch.linspace(0, count - 1, min(count, _SAMPLES), dtype=torch.float64).round().long().to(tensor.device)
    # Indexing by coordinates reads a transposed weight in place, where flattening it would copy all of it.
    values = tensor.detach().reshape(1) if tensor.ndim == 0 else tensor.detach()[torch.unravel_index(places, tensor.shape)]
    return values.contiguous().view(torch.uint8).cpu().numpy().tobytes()


def _tokenizer(tokenizer: Any) -> Any:
    size = len(tokenizer)
    ids = sorted({round(index * (size - 1) / (_SAMPLES - 1)) for index in range(_SAMPLES)}) if size else []
    return {
        "size": size,
        "entries": tokenizer.convert_ids_to_tokens(ids),
        "probe": [int(token) for token in tokenizer(_PROBE)["input_ids"]],
        "template": getattr(tokenizer, "chat_template", None),
    }


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, default=str, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
