"""`capture`: from a model and text to activations, in one pass."""

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from transect._progress import progress as progress_bar
from transect.capture.activations import Activations
from transect.capture.examples import Data, Examples, read_examples
from transect.capture.guard import untouched
from transect.capture.hooks import Listener
from transect.capture.layout import DTYPES, Shard, dtype_name, read_manifest
from transect.capture.passes import Passes
from transect.capture.plan import Batch, padding_share, plan_batches
from transect.capture.provenance import check_same, conditions_of, description_of, identity_of
from transect.capture.rows import row_begins, row_table, targets_of
from transect.capture.select import Layout
from transect.capture.sinks import MemorySink, Sink
from transect.capture.store import StoreSink
from transect.capture.verify import verify_sample
from transect.errors import InputError, ModelError, SiteError, StoreError
from transect.models import Model
from transect.sites import Place, TokenRule, parse_tokens, resolve_sites


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """How large batches are; measured, see `benchmarks/capture.py`."""

    tokens: int
    """The most tokens in a batch."""
    patience: int
    """The most padding tokens in a batch: about what starting another batch costs, in tokens."""


# A batch must fill the device; more than that costs memory and wins nothing.
_CPU = Budget(tokens=2048, patience=96)
_ACCELERATOR = Budget(tokens=16384, patience=2048)


def budget_for(model: Model, batch_tokens: int | None) -> Budget:
    """The budget for the device a model is on; `batch_tokens`, where given, is the most tokens in a batch instead."""
    budget = _ACCELERATOR if model.device.type not in ("cpu", "meta") else _CPU
    return budget if batch_tokens is None else dataclasses.replace(budget, tokens=batch_tokens)


def capture(
    model: Model,
    data: Data,
    *,
    sites: str | Sequence[str] = "layers[*]",
    tokens: str | int | TokenRule = "last",
    store: str | os.PathLike[str] | None = None,
    resume: bool = True,
    chat: bool = False,
    truncate: bool = False,
    batch_tokens: int | None = None,
    dtype: str | torch.dtype | None = None,
    verify: int = 0,
    progress: bool | None = None,
) -> Activations:
    """Run texts through a model once and keep the activations of some sites at some tokens.

    One forward pass of the backbone serves all sites. It ends after the last of them has run, and never reaches the
    language-model head; only the rows that are read are kept, and whole hidden states are not. Texts of like length run
    together, padded on the right only (see `transect.capture.plan`), so a batch gives what each text alone would; the
    order of the data is restored. Mixture-of-experts models that drop tokens over an expert's capacity are the exception:
    there a text's activations depend on its batch, which `verify` shows.

    The model runs in evaluation mode, without gradients, under other people's hooks, and is left exactly as it was found,
    also after an error or Ctrl-C.

    Args:
        model: from `transect.load`.
        data: a `Table`, or anything that `transect.read_table` reads, such as a list of texts; for models that take tensors
            (``model.takes``) one tensor ``[n, ...]``.
        sites: names of places, such as ``layers[12]``, ``layers[4:8].mlp.out`` or ``embed`` (see `transect.sites`).
        tokens: the token rule, such as ``last``, ``mean`` or ``all``. Sites with one vector per example take ``last`` only.
        store: a folder to write, instead of keeping everything in memory. Memory then does not grow with the number of
            texts. Killed at any moment, the same call on the same machine goes on where it was and ends with the same bits; a
            store that is complete is opened and nothing is run.
        resume: False refuses a store that exists already.
        chat: write each text as one user turn of the chat template. Tables of conversations need no such request.
        truncate: cut texts longer than the model's context at the end, and count them, instead of refusing them.
        batch_tokens: the most tokens in a batch, padding included; None chooses by device.
        dtype: the type to keep; None keeps each site's own.
        verify: how many texts to run again one at a time; ``provenance["verify"]`` has the largest difference.
        progress: show a progress bar on stderr; None shows it on a terminal.

    Returns:
        The activations: ``acts["layers[12]"]`` is ``[n, d]``.

    Raises:
        SiteError: a site does not exist, does not run exactly once per pass, or carries no activations.
        TokenRuleError: a token rule cannot be read, or selects nothing in some text.
        InputError: the data does not suit the model, a text is empty or too long, or a setting makes no sense.
        ModelError: an activation is NaN or infinite; the row and the site are named.
        MismatchError: the store holds something else; the fields that differ are named.
        StoreError: the folder is not a store, is damaged or in use, or the disk is full.

    Examples:
        >>> from transect.testing.tiny import tiny
        >>> acts = capture(tiny("llama"), ["The city of Paris", "Yes"], sites=["layers[0]", "final_norm"])
        >>> acts.sites, acts["final_norm"].shape, acts.rows.column_names[:3]
        (('layers[0]', 'final_norm'), torch.Size([2, 16]), ['row', 'n_tokens', 'start'])
    """
    if not isinstance(model, Model):
        raise InputError(f"expected a Model, got {type(model).__name__}; load it first: transect.load(...).")
    if verify < 0:
        raise InputError(f"verify counts texts, got {verify}; give 0 or more.")
    rule = parse_tokens(tokens)
    budget = budget_for(model, batch_tokens)
    places = resolve_sites(model.structure, sites)
    examples = read_examples(model, data, rule, chat=chat, truncate=truncate)
    wanted = _read_dtype(dtype)
    job = _Job(model=model, places=places, rule=rule, examples=examples, dtype=wanted, chat=chat, budget=budget, progress=progress)
    found = None if store is None else _find_store(job, Path(store), resume=resume)
    if found is None:
        return _run(job, store=None if store is None else Path(store), verify=verify)
    return _verify_found(job, found, verify) if verify else found


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Job:
    """One call of `capture`, read and checked."""

    model: Model
    places: tuple[Place, ...]
    rule: TokenRule
    examples: Examples
    dtype: torch.dtype | None
    chat: bool
    budget: Budget
    progress: bool | None

    @functools.cached_property
    def identity(self) -> dict[str, Any]:
        return identity_of(model=self.model, examples=self.examples, places=self.places, rule=self.rule, dtype=self.dtype, chat=self.chat)

    @functools.cached_property
    def conditions(self) -> dict[str, Any]:
        return conditions_of(self.model, batch_tokens=self.budget.tokens, patience=self.budget.patience)


def _read_dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    found = getattr(torch, dtype.removeprefix("torch."), None) if isinstance(dtype, str) else dtype
    if dtype is not None and found not in DTYPES:
        raise InputError(
            f"activations cannot be kept as {dtype!r}; choose one of {', '.join(map(dtype_name, DTYPES))}, or None for the model's own."
        )
    return found


def _find_store(job: _Job, store: Path, *, resume: bool) -> Activations | None:
    """A complete store of this very capture; None when there is work to do."""
    manifest = read_manifest(store)
    if manifest is None:
        return None
    if not resume:
        raise StoreError(
            f"{store} already holds a store ({manifest['status']}), and resume=False; choose another folder, or leave resume on to use it."
        )
    advice = "Choose another folder for this capture, or ask for what the store holds."
    check_same(f"the store {store}", manifest["identity"], job.identity, advice=advice)
    if manifest["status"] == "complete":
        return Activations.open(store)
    advice = "Going on would not give the same bits. Restore the old conditions, or capture into another folder."
    check_same(f"the unfinished store {store}", manifest["conditions"], job.conditions, advice=advice)
    return None


@contextlib.contextmanager
def _ready(job: _Job) -> Iterator[tuple[Passes, tuple[Layout, ...]]]:
    """The model with hooks in place and its sites surveyed; put back at the end."""
    module = job.model.module
    with untouched(module) as overwrites, Listener(module, job.places) as listener:
        passes = Passes(model=job.model, places=job.places, rule=job.rule, examples=job.examples, listener=listener)
        with overwrites:
            layouts = passes.survey()
        with overwrites if overwrites.any else contextlib.nullcontext():
            yield passes, layouts


def _run(job: _Job, *, store: Path | None, verify: int) -> Activations:
    examples, begun = job.examples, time.perf_counter()
    with _ready(job) as (passes, layouts):
        lengths = _lengths(examples, layouts)
        patience = job.budget.patience if passes.may_pad else 0
        batches = plan_batches(lengths, budget=job.budget.tokens, patience=patience)
        begins = row_begins(examples, job.rule, tokens=_common_tokens(layouts, job.rule) if examples.kind == "tensor" else None)
        shards = [
            Shard.of(index, layout.place.name, n_rows=int(begins[-1]), width=layout.width, dtype=job.dtype or layout.dtype)
            for index, layout in enumerate(layouts)
        ]
        rows = row_table(examples, job.rule, begins)
        manifest = {"identity": job.identity, "conditions": job.conditions}
        sink: Sink = MemorySink(shards, rows) if store is None else StoreSink(store, shards, rows, manifest)
        with contextlib.closing(sink):
            n_found = _run_batches(job, passes, batches, lengths=lengths, begins=begins, shards=shards, sink=sink)
            checked = verify_sample(passes, examples, begins, shards, sink.get, n=verify) if verify else None
            seconds = time.perf_counter() - begun
            n_tokens = int(lengths.sum())
            provenance = {
                **description_of(job.model, examples),
                **{name: job.identity[name] for name in ("sites", "tokens", "dtype", "chat")},
                "n_tokens": n_tokens,
                "conditions": {**job.conditions, "batches": len(batches), "padding": padding_share(lengths, batches), "found": n_found},
                "seconds": seconds,
                "tokens_per_second": n_tokens / seconds,
                "verify": checked,
            }
            return sink.finish(provenance)


def _lengths(examples: Examples, layouts: Sequence[Layout]) -> np.ndarray:
    """``[n]``: how many tokens each example costs."""
    if examples.kind == "tokens":
        return examples.lengths
    return np.maximum(examples.lengths, max(layout.tokens or 1 for layout in layouts))


def _common_tokens(layouts: Sequence[Layout], rule: TokenRule) -> int | None:
    """How many tokens tensors have at the sites; matters only when every token becomes a row."""
    counts = {layout.tokens for layout in layouts}
    if rule.reduces == "all" and len(counts) > 1:
        listed = ", ".join(f"{layout.place.name}: {layout.tokens}" for layout in layouts)
        raise SiteError(f"token rule 'all' needs sites with equally many tokens, got {listed}. Capture them one call each.")
    tokens = counts.pop()
    return None if tokens is None else len(rule.positions(tokens))


def _run_batches(
    job: _Job,
    passes: Passes,
    batches: Sequence[Batch],
    *,
    lengths: np.ndarray,
    begins: np.ndarray,
    shards: Sequence[Shard],
    sink: Sink,
) -> int:
    """Run what is not in the sink yet; returns how many batches were."""
    n_found = 0
    with progress_bar("capturing", total=float(lengths.sum()), unit="tokens", shown=job.progress) as advance:
        for number, batch in enumerate(batches):
            targets = targets_of(begins, batch.rows)
            if sink.has(number, targets):
                n_found += 1
            else:
                values = [value.to(shard.dtype) for shard, value in zip(shards, passes.run(batch), strict=True)]
                _check_finite(values, shards, targets, begins)
                sink.put(number, targets, values)
            advance(float(lengths[batch.rows].sum()))
    return n_found


def _check_finite(values: Sequence[torch.Tensor], shards: Sequence[Shard], targets: np.ndarray, begins: np.ndarray) -> None:
    for shard, value in zip(shards, values, strict=True):
        finite = torch.isfinite(value).all(dim=1)
        if not finite.all():
            worst = int(finite.logical_not().nonzero()[0])
            row = int(np.searchsorted(begins, targets[worst], side="right")) - 1
            raise ModelError(
                f"row {row} (counted from 0) has NaN or infinite activations at {shard.site}, kept as {dtype_name(shard.dtype)}. float16 "
                f"overflows at 65504: load the model with dtype='float32' or 'bfloat16', or look at that text."
            )


def _verify_found(job: _Job, acts: Activations, n: int) -> Activations:
    """A store that was complete already, compared with the model as it is now."""
    with _ready(job) as (passes, layouts):
        begins = row_begins(job.examples, job.rule, tokens=_common_tokens(layouts, job.rule) if job.examples.kind == "tensor" else None)
        shards = [
            Shard.of(index, layout.place.name, n_rows=len(acts), width=layout.width, dtype=acts[layout.place.name].dtype)
            for index, layout in enumerate(layouts)
        ]

        def get(site: int, targets: np.ndarray) -> torch.Tensor:
            return acts[shards[site].site][torch.from_numpy(targets)]

        checked = verify_sample(passes, job.examples, begins, shards, get, n=n)
    return dataclasses.replace(acts, provenance={**acts.provenance, "verify": checked})
