"""Whether a model writes text token by token."""

from torch import nn

from transect.errors import InputError
from transect.models.model import Model


def speaker(module: nn.Module) -> nn.Module | None:
    """The module whose `generate` writes text: the module itself, or the one inside an adapter's wrapper; None without one.

    Examples:
        >>> from transect.testing.tiny import tiny
        >>> model = tiny("llama")
        >>> speaker(model.module) is model.module, speaker(tiny("bert").module)
        (True, None)
    """
    for child in module.modules():
        can = getattr(child, "can_generate", None)
        if callable(can) and callable(getattr(type(child), "generate", None)) and can():
            return child
    return None


def check_speaks(model: Model) -> nn.Module:
    """The module that generates.

    Raises:
        InputError: it is no model of ours, or cannot write text token by token with the blocks that read the prompt.
    """
    if not isinstance(model, Model):
        raise InputError(f"expected a Model, got {type(model).__name__}; load it first: transect.load(...).")
    found = speaker(model.module)
    kind = type(model.module).__name__
    if found is None:
        raise InputError(
            f"{model.name} ({kind}) cannot generate text. Score texts with it (transect score), or load the model with its language-model head."
        )
    if getattr(getattr(found, "config", None), "is_encoder_decoder", False):
        raise InputError(
            f"{model.name} ({kind}) is an encoder-decoder: its prompt and its answer run through different blocks, so one site does not see "
            f"both. This is for decoder-only models."
        )
    return found
