"""Forward passes of a model's backbone: one to learn what its sites look like, then one per batch."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from transect.capture.examples import Examples
from transect.capture.hooks import Listener
from transect.capture.plan import Batch
from transect.capture.select import Layout, find_layout, pick_rows
from transect.models import Model
from transect.sites import Place, TokenRule


class Passes:
    """Runs examples through a model and keeps the rows that a token rule reads.

    Args:
        model: what runs; only its backbone does.
        places: where to read.
        rule: which tokens.
        examples: what to run.
        listener: hooks at the places, already registered.
    """

    def __init__(self, *, model: Model, places: Sequence[Place], rule: TokenRule, examples: Examples, listener: Listener) -> None:
        self._model = model
        self._places = places
        self._rule = rule
        self._examples = examples
        self._listener = listener
        self._accepts = _accepted(model.backbone.forward)
        self._offsets = examples.offsets
        self._layouts: tuple[Layout, ...] = ()

    @property
    def may_pad(self) -> bool:
        """Whether padding on the right leaves an example's own tokens as they are."""
        return self._examples.kind == "tokens" and ("attention_mask" in self._accepts or self._model.structure.causal)

    def survey(self) -> tuple[Layout, ...]:
        """Run one short example to the end, twice side by side, and learn each place's layout.

        Raises:
            SiteError: a place does not run exactly once, or carries nothing that can be kept.
            TokenRuleError: the rule cannot be applied at a place.
        """
        example = self._example_to_survey()
        length = int(self._examples.lengths[example])
        seen = self._listener.observe(self._forward(np.array([example, example]), length))
        known = self._examples.kind == "tokens" or (self._examples.tensor is not None and self._examples.tensor.ndim == 3)
        self._layouts = tuple(
            find_layout(place, tensor, n=2, t=length if known else None) for place, tensor in zip(self._places, seen, strict=True)
        )
        return self._layouts

    def _example_to_survey(self) -> int:
        """A short text, but of three tokens or more where there is one: two examples of two tokens would look the same turned round."""
        lengths = self._examples.lengths
        enough = np.where(lengths >= 3, lengths, np.iinfo(np.int64).max - lengths)
        return int(enough.argmin())

    def run(self, batch: Batch) -> list[torch.Tensor]:
        """The kept rows of one batch, ``[rows, d]`` per place, on the CPU, in the batch's order."""
        reads = None
        if self._examples.kind == "tokens":
            reads = [range(start, stop) for start, stop in self._examples.reads[batch.rows].tolist()]

        def pick(index: int, hidden: torch.Tensor) -> torch.Tensor:
            return pick_rows(hidden, self._layouts[index], reads, self._rule)

        kept = self._listener.collect(self._forward(batch.rows, batch.length), pick)
        return [rows.to("cpu") for rows in kept]

    def _forward(self, rows: np.ndarray, length: int) -> Callable[[], Any]:
        backbone, device = self._model.backbone, self._model.device
        options: dict[str, Any] = {"use_cache": False} if "use_cache" in self._accepts else {}
        config = getattr(backbone, "config", None)
        for name in ("output_hidden_states", "output_attentions"):
            # Kept outputs would cost memory, and transformers would install its own hooks for them, for good.
            if getattr(config, name, False) and self._accepts & {name, "**"}:
                options[name] = False
        if self._examples.tensor is not None:
            value = self._examples.tensor[torch.from_numpy(rows)].to(device)
            return lambda: backbone(value, **options)
        ids, mask = self._padded(rows, length)
        if mask is not None and "attention_mask" in self._accepts:
            options["attention_mask"] = mask.to(device)
        ids = ids.to(device)
        if "input_ids" in self._accepts:
            return lambda: backbone(input_ids=ids, **options)
        return lambda: backbone(ids, **options)

    def _padded(self, rows: np.ndarray, length: int) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Ids ``[b, length]`` padded on the right, and the mask, or None when nothing is padded."""
        examples, offsets = self._examples, self._offsets
        lengths = examples.lengths[rows]
        mask = np.arange(length) < lengths[:, None]
        # Which token pads does not matter, since nothing looks at it; token 0 exists in every vocabulary.
        ids = np.zeros((len(rows), length), dtype=np.int64)
        ids[mask] = np.concatenate([examples.ids[offsets[row] : offsets[row + 1]] for row in rows.tolist()])
        return torch.from_numpy(ids), None if mask.all() else torch.from_numpy(mask.astype(np.int64))


def _accepted(forward: Callable[..., Any]) -> frozenset[str]:
    """The names of a forward's arguments; ``**`` when it takes any."""
    parameters = inspect.signature(forward).parameters.values()
    return frozenset("**" if parameter.kind is parameter.VAR_KEYWORD else parameter.name for parameter in parameters)
