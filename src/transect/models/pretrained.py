"""Reading a model from a safetensors folder or from the Hugging Face hub."""

from typing import Any

import torch
from torch import nn

from transect.errors import ModelError
from transect.models.quiet import no_progress_bars
from transect.sites import find_structure


def read_pretrained(source: str, *, dtype: torch.dtype | None, with_tokenizer: bool) -> tuple[nn.Module, Any | None]:
    """The module and tokenizer of a folder or a hub id.

    The class is the one that the configuration names, so that a model with a language-model head comes with it and can
    generate. Global random state is left alone.

    Args:
        source: a folder, or an id on the hub.
        dtype: of the weights; None keeps what is stored.
        with_tokenizer: read the tokenizer too; an error if there is none.

    Raises:
        ModelError: it cannot be found or read, needs code of its own, or lacks weights that its blocks need.
    """
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError
    from transformers import AutoConfig, AutoTokenizer

    try:
        with no_progress_bars(), torch.random.fork_rng(devices=[]):
            # What the files lack (BERT's unused pooler, say) is initialised at random: the same each time.
            torch.manual_seed(0)
            config = AutoConfig.from_pretrained(source, trust_remote_code=False)
            module, information = _model_class(config).from_pretrained(
                source, config=config, dtype=dtype or "auto", use_safetensors=True, trust_remote_code=False, output_loading_info=True
            )
            tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False) if with_tokenizer else None
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, TypeError, SafetensorError, StrictDataclassError) as error:
        raise ModelError(_explain(source, error)) from error
    _refuse_missing(source, module, information["missing_keys"])
    return module, tokenizer


def _model_class(config: Any) -> Any:
    """The class that the configuration names, where transformers has it; else the bare model of its kind."""
    import transformers

    for name in getattr(config, "architectures", None) or ():
        found = getattr(transformers, name, None)
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            return found
    return transformers.AutoModel


def _refuse_missing(source: str, module: nn.Module, missing: Any) -> None:
    """Weights that the files lack are random; in the parts that activations come from that would be noise taken for a finding."""
    structure = find_structure(module)
    places = [*structure.blocks, *(path for path in (structure.embed, structure.final_norm) if path is not None)]
    lacking = sorted(key for key in missing if any(key.startswith(f"{place}.") for place in places))
    if lacking:
        raise ModelError(
            f"{source} lacks {len(lacking)} of the weights that {type(module).__name__} needs, such as {', '.join(lacking[:3])}. "
            f"Is it complete, and does config.json belong to these weights?"
        )


def _explain(source: str, error: Exception) -> str:
    text = str(error).strip().split("\n")[0]
    cause = f"{type(error).__name__}: {text}"
    if "trust_remote_code" in str(error):
        return (
            f"{source!r} needs code that comes with it, which transect never runs. If you trust it, load it yourself with transformers "
            f"and give transect the module: load(module, tokenizer=tokenizer)."
        )
    if "safetensors" in str(error) and "found" in str(error):
        return f"{source!r} has no safetensors weights, and transect reads no pickle. Convert it, or ask its author to. ({cause})"
    return (
        f"cannot load {source!r}: {cause}. If it is a folder, it should be as save_pretrained writes it. If it is an id on the Hugging "
        f"Face hub, check its spelling, that this machine reaches huggingface.co, and that you may read it (hf auth login)."
    )
