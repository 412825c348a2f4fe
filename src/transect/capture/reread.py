"""A clean pass over token ids that exist already, such as a generation that has ended: no cache, no padding on the left."""

import contextlib
import hashlib
from collections.abc import Sequence

import numpy as np
import torch

from transect._progress import progress as progress_bar
from transect.capture.activations import Activations
from transect.capture.examples import Examples
from transect.capture.guard import untouched
from transect.capture.hooks import Listener
from transect.capture.layout import Shard, dtype_name
from transect.capture.passes import Passes
from transect.capture.plan import plan_batches
from transect.capture.provenance import description_of
from transect.capture.rows import row_begins, row_table, targets_of
from transect.capture.sinks import MemorySink
from transect.errors import ModelError, TokenRuleError
from transect.models import Model
from transect.sites import TokenRule, parse_tokens, resolve_sites

_BUDGET, _PATIENCE = 512, 32  # as `capture` has them on a CPU


def reread(
    model: Model,
    ids: Sequence[Sequence[int]],
    *,
    sites: str | Sequence[str],
    tokens: str | TokenRule = "last",
    prompts: Sequence[int] | None = None,
    batch_tokens: int = _BUDGET,
    progress: bool | None = False,
) -> Activations:
    """Activations of texts that are given as token ids, as `capture` would give them for the same tokens.

    Args:
        model: one that takes tokens.
        ids: for each of ``n`` texts its token ids, special tokens included, no padding.
        sites: where to read.
        tokens: which tokens to read.
        prompts: for each text how many of its tokens are the prompt; needed by ``prompt[...]`` and ``generated[...]``.
        batch_tokens: the most tokens in a batch, padding included.
        progress: show a progress bar on stderr; None shows it on a terminal.

    Raises:
        SiteError: a site does not exist, or does not run exactly once.
        TokenRuleError: the rule selects nothing in some text.
        ModelError: an activation is NaN or infinite; the row and the site are named.

    Examples:
        >>> from transect.testing.tiny import tiny
        >>> reread(tiny("llama"), [[1, 20, 21], [1, 22]], sites="layers[1]")["layers[1]"].shape
        torch.Size([2, 16])
    """
    rule, places = parse_tokens(tokens), resolve_sites(model.structure, sites)
    examples = _examples(ids, rule, prompts)
    module = model.module
    with untouched(module) as overwrites, Listener(module, places) as listener:
        passes = Passes(model=model, places=places, rule=rule, examples=examples, listener=listener)
        with overwrites:
            layouts = passes.survey()
        with overwrites if overwrites.any else contextlib.nullcontext():
            batches = plan_batches(examples.lengths, budget=batch_tokens, patience=_PATIENCE if passes.may_pad else 0)
            begins = row_begins(examples, rule, tokens=None)
            shards = [
                Shard.of(index, layout.place.name, n_rows=int(begins[-1]), width=layout.width, dtype=layout.dtype)
                for index, layout in enumerate(layouts)
            ]
            sink = MemorySink(shards, row_table(examples, rule, begins))
            with progress_bar("reading", total=float(examples.lengths.sum()), unit="tokens", shown=progress) as advance:
                for number, batch in enumerate(batches):
                    values = passes.run(batch)
                    targets = targets_of(begins, batch.rows)
                    _check_finite(values, shards, targets, begins)
                    sink.put(number, targets, values)
                    advance(float(examples.lengths[batch.rows].sum()))
    return sink.finish({**description_of(model, examples), "sites": [place.name for place in places], "tokens": str(rule)})


def _examples(ids: Sequence[Sequence[int]], rule: TokenRule, prompts: Sequence[int] | None) -> Examples:
    lengths = np.array([len(row) for row in ids], dtype=np.int64)
    flat = np.array([token for row in ids for token in row], dtype=np.int32)
    reads = np.empty((len(ids), 2), dtype=np.int64)
    for row, length in enumerate(lengths.tolist()):
        try:
            at = rule.positions(length, prompt=None if prompts is None else (0, prompts[row]))
        except TokenRuleError as error:
            raise TokenRuleError(f"row {row} (counted from 0): {error}") from None
        reads[row] = at.start, at.stop
    digest = hashlib.blake2b(lengths.tobytes() + flat.tobytes(), digest_size=16).hexdigest()
    return Examples(kind="tokens", lengths=lengths, ids=flat, reads=reads, digest=digest)


def _check_finite(values: Sequence[torch.Tensor], shards: Sequence[Shard], targets: np.ndarray, begins: np.ndarray) -> None:
    for shard, value in zip(shards, values, strict=True):
        finite = torch.isfinite(value).all(dim=1)
        if not finite.all():
            row = int(np.searchsorted(begins, targets[int(finite.logical_not().nonzero()[0])], side="right")) - 1
            raise ModelError(
                f"row {row} (counted from 0) has NaN or infinite activations at {shard.site}, in {dtype_name(shard.dtype)}. float16 overflows "
                f"at 65504: load the model with dtype='float32' or 'bfloat16', or look at that text."
            )
