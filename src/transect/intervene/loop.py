"""Which call of `generate` a forward pass belongs to, read from the running call itself.

A forward hook sees the tokens of one pass. It does not see whether they begin a new generation or go on with one, which
rows have ended, or whether beams exchange rows in between: `generate` keeps all of that in local variables. They are read
here from the frames of the call, and nothing is written. The alternatives would be to replace `generate` on the user's
model, or to guess from the tokens, and a guess is wrong without a sign under beam search.

Only transformers' loop for greedy decoding and sampling is read. Every other way to generate is refused by its name.
"""

import dataclasses
import inspect
import sys
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn

from transect.errors import InputError, ModelError

_LOOP = "_sample"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Loop:
    """The state of the loop of `generate` at the moment of a forward pass."""

    key: Any
    """The call's own copy of the generation settings: one object per call of `generate`."""
    length: int
    """How many tokens, prompt included, each row has so far."""
    mask: torch.Tensor | None
    """``[B, t]``: 0 where the prompt is padding, or None where nothing is."""
    unfinished: torch.Tensor
    """``[B]``: 1 for the rows whose next token is one of the text, 0 for rows that have ended."""


class LoopReader:
    """Finds the loop that runs a module, if one does.

    Args:
        module: the one whose `generate` runs.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._loop = _code(getattr(type(module), _LOOP, None))
        self._generate = _code(getattr(type(module), "generate", None))

    def find(self) -> Loop | None:
        """The loop around the present forward pass; None where the module was called directly.

        Raises:
            InputError: `generate` runs in a way that cannot be monitored, such as beam search.
            ModelError: this version of transformers keeps its state elsewhere.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code is self._loop:
                known = frame.f_locals
                if known.get("self") is self._module:
                    return _read(known)
            elif frame.f_code is self._generate:
                known = frame.f_locals
                if known.get("self") is self._module:
                    raise _refusal(known)
            frame = frame.f_back
        return None


def _code(function: Any) -> CodeType | None:
    return getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None


def _read(known: dict[str, Any]) -> Loop:
    missing = [name for name in ("generation_config", "input_ids", "unfinished_sequences", "model_kwargs") if name not in known]
    if missing:
        import transformers

        raise ModelError(
            f"the generation loop of transformers {transformers.__version__} keeps no {', '.join(missing)}, so a monitor cannot tell which "
            f"token it sees. Use a version of transformers that this transect was tested with, or score the finished texts."
        )
    config = known["generation_config"]
    beams, constraint = getattr(config, "num_beams", 1) or 1, getattr(config, "penalty_alpha", None)
    if beams > 1 or constraint:
        raise _refusal({"generation_config": config})
    mask = known["model_kwargs"].get("attention_mask")
    two_axes = mask if isinstance(mask, torch.Tensor) and mask.ndim == 2 else None
    return Loop(key=config, length=known["input_ids"].shape[1], mask=two_axes, unfinished=known["unfinished_sequences"])


def _refusal(known: dict[str, Any]) -> InputError:
    """Names what runs; `generation_mode` is set before the loop begins."""
    mode = known.get("generation_mode")
    name = str(getattr(mode, "value", mode) or "another loop").replace("_", " ")
    beams = getattr(known.get("generation_config"), "num_beams", 1) or 1
    if beams > 1 and "beam" not in name:
        name = "beam search"
    if callable(known.get("custom_generate")):
        name = "custom_generate"
    why = "its rows are exchanged between steps" if "beam" in name else "its passes hold tokens that may be thrown away"
    return InputError(
        f"a monitor follows greedy decoding and sampling; this call of generate runs {name}{f' (num_beams={beams})' if beams > 1 else ''}, "
        f"and {why}, so scores would be those of other texts. Generate with num_beams=1 and no assistant, or generate first and score the "
        f"finished texts."
    )
