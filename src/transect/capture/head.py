"""A language-model head on its own: the last hidden states that were asked for in, logits out, a few rows at a time.

The head is the model's own code: its forward is run with the backbone's answer put in the backbone's place, so that whatever it
does after the last hidden state (soft-capping of logits as in Gemma, scaling as in Cohere and Granite, a bias) is done here too.
That this gives the model's own logits is checked on one text before anything else is run.
"""

import contextlib
import copy
import dataclasses
from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np
import torch

from transect._progress import progress as progress_bar
from transect.capture.examples import Data, Examples, read_examples
from transect.capture.guard import untouched
from transect.capture.hooks import Listener
from transect.capture.passes import Passes
from transect.capture.plan import plan_batches
from transect.capture.run import budget_for
from transect.errors import ModelError
from transect.models import Model
from transect.sites import Place, TokenRule

_HEAD_BYTES = 64 * 2**20  # logits of one chunk, in float32


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Voice:
    """A model, some texts, and the head alone; usable inside `speaking`."""

    model: Model
    examples: Examples
    passes: Passes
    template: Any
    """What the backbone returned once; the head gets it with other hidden states."""
    vocabulary: int

    def hidden(self, *, batch_tokens: int | None, progress: bool | None) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
        """Batch by batch, the rows and the last hidden states ``[rows, d]`` of the tokens read in them."""
        budget = budget_for(self.model, batch_tokens)
        lengths = self.examples.lengths
        batches = plan_batches(lengths, budget=budget.tokens, patience=budget.patience if self.passes.may_pad else 0)
        with progress_bar("reading", total=float(lengths.sum()), unit="tokens", shown=progress) as advance:
            for batch in batches:
                yield batch.rows, self.passes.run(batch)[0]
                advance(float(lengths[batch.rows].sum()))

    def logits(self, hidden: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
        """Chunk by chunk, which of the rows and their logits ``[rows, v]``, float32 at least."""
        size = max(1, _HEAD_BYTES // (4 * self.vocabulary))
        for start in range(0, len(hidden), size):
            part = slice(start, min(start + size, len(hidden)))
            logits = _head_alone(self.model, self.template, hidden[part].to(self.model.device))
            yield part, logits.to(torch.promote_types(logits.dtype, torch.float32))


@contextlib.contextmanager
def speaking(model: Model, data: Data, rule: TokenRule, *, chat: bool, truncate: bool) -> Iterator[Voice]:
    """The model with its head understood; everything is put back at the end."""
    _check_has_head(model)
    examples = read_examples(model, data, rule, chat=chat, truncate=truncate)
    place = Place(name="the backbone's output", module=model.structure.backbone)
    with untouched(model.module) as overwrites, Listener(model.module, [place]) as listener:
        passes = Passes(model=model, places=[place], rule=rule, examples=examples, listener=listener)
        with overwrites:
            passes.survey()
            template, vocabulary = _learn_head(model, examples)
        with overwrites if overwrites.any else contextlib.nullcontext():
            yield Voice(model=model, examples=examples, passes=passes, template=template, vocabulary=vocabulary)


def _check_has_head(model: Model) -> None:
    head = getattr(model.module, "get_output_embeddings", lambda: None)
    if model.takes != "tokens" or not model.structure.backbone or not model.structure.causal or head() is None:
        raise ModelError(
            f"{model.name} ({type(model.module).__name__}) has no language-model head that predicts the next token, so it says nothing. "
            f"Load the causal language model itself (a class ...ForCausalLM or ...LMHeadModel), not its backbone or an encoder."
        )


def _learn_head(model: Model, examples: Examples) -> tuple[Any, int]:
    """What the backbone returns and how large the vocabulary is, from one short text; checks that the head alone says the same."""
    row = int(examples.lengths.argmin())
    start, stop = examples.offsets[row : row + 2]
    ids = torch.from_numpy(examples.ids[start:stop]).long()[None].to(model.device)
    returned: list[Any] = []
    handle = model.backbone.register_forward_hook(lambda _module, _args, output: returned.append(output))
    try:
        whole = _logits_of(model.module(ids), model)
    finally:
        handle.remove()
    if len(returned) != 1:
        raise ModelError(
            f"the backbone of {model.name} ran {len(returned)} times in one forward pass, expected once; its head is not known."
        )
    hidden = _hidden_of(returned[0])
    alone = _head_alone(model, returned[0], hidden[0]) if hidden is not None and hidden.ndim == 3 else None
    scale = float(whole.abs().max()) or 1.0
    if alone is None or alone.shape != whole.shape[1:] or not torch.allclose(alone, whole[0], rtol=0, atol=1e-3 * scale, equal_nan=True):
        raise ModelError(
            f"the head of {model.name} ({type(model.module).__name__}) does not give the model's own logits when it runs on the last hidden "
            f"states alone, so what the model says cannot be read cheaply. Hooks at the backbone that change its output do this too."
        )
    return returned[0], int(whole.shape[-1])


def _head_alone(model: Model, template: Any, hidden: torch.Tensor) -> torch.Tensor:
    """Logits ``[m, v]`` of hidden states ``[m, d]``: the model's forward with its backbone's answer given beforehand."""
    answer = _with_hidden(template, hidden[None])
    backbone = model.backbone
    had, before = "forward" in vars(backbone), vars(backbone).get("forward")
    vars(backbone)["forward"] = lambda *_args, **_kwargs: answer
    try:
        ids = torch.zeros((1, len(hidden)), dtype=torch.long, device=hidden.device)
        return _logits_of(model.module(ids), model)[0]
    finally:
        if had:
            vars(backbone)["forward"] = before
        else:
            del vars(backbone)["forward"]


def _hidden_of(output: Any) -> torch.Tensor | None:
    first = output if isinstance(output, torch.Tensor) else next(iter(output.values() if isinstance(output, MutableMapping) else output))
    return first if isinstance(first, torch.Tensor) else None


def _with_hidden(output: Any, hidden: torch.Tensor) -> Any:
    """The same answer of a backbone with other hidden states."""
    if isinstance(output, torch.Tensor):
        return hidden
    if isinstance(output, MutableMapping):
        changed = copy.copy(output)
        changed[next(iter(output))] = hidden
        return changed
    return (hidden, *output[1:])


def _logits_of(output: Any, model: Model) -> torch.Tensor:
    logits = getattr(output, "logits", None)
    if not isinstance(logits, torch.Tensor) or logits.ndim != 3:
        raise ModelError(f"{model.name} ({type(model.module).__name__}) returned no logits [n, t, v], so what it says cannot be read.")
    return logits
