"""`monitor`: probes that score every token while a model generates.

Hooks at the probes' sites turn the activations of a pass into scores at once, one matrix product per site for all probes
there, and keep the scores only. What is kept is aligned with the ``sequences`` that `generate` returns, whatever way the
passes came: whole prompts or chunks, left or ragged padding, with or without a KV cache, several returned sequences.

The token that `generate` samples last is never run through the model. It has no score (NaN), and `Run.n_unscored` counts it;
``score_last=True`` reads it in one clean pass at the end.
"""

from collections.abc import Callable, Mapping
from typing import Literal, get_args

from transect.errors import InputError
from transect.intervene.belonging import find_places, read_probes
from transect.intervene.placed import group_probes
from transect.intervene.records import Alarm, Step
from transect.intervene.thresholds import Judge, Statistic, Threshold, Where, read_thresholds
from transect.intervene.watch import Watch
from transect.linear import Readout
from transect.models import Model
from transect.models.speaking import check_speaks


def monitor(
    model: Model,
    probes: Readout | Mapping[str, Readout],
    *,
    thresholds: Threshold | Mapping[str, Threshold] | None = None,
    on_alarm: Callable[[Alarm], None] | None = None,
    on_token: Callable[[Step], None] | None = None,
    stop: bool | Literal["row", "all"] = False,
    statistic: Statistic = "score",
    compare: Where = "generated",
    score_last: bool = False,
    force: bool = False,
) -> Watch:
    """Score every token that a model reads or generates inside a ``with`` block.

    Greedy decoding and sampling are followed, and plain forward passes of the whole model (``model.module(**inputs)``). The
    model, its settings, its random state and its outputs are untouched: logits have the same bits with the monitor on.

    Args:
        model: from `transect.load`; one that generates.
        probes: one probe, or several by name. Each knows the site that it reads.
        thresholds: one for all probes, or one by name: a number in the units of the probe's scores, or a
            `SequenceCertificate` (of ``max`` for the statistic ``score``, or of ``mean`` for ``mean``): beyond its horizon nothing is
            compared, and without one a row longer than it covers is an error. A score above it is an alarm, the first time in each row and run.
        on_alarm: called with each alarm, after the pass in which it came. If it raises, the hooks are removed, the error
            reaches the caller, and what was scored stays.
        on_token: called with every pass's tokens and scores: once for a prompt (or a chunk of one), then token by token.
        stop: end the row (``True`` or ``"row"``), or all rows (``"all"``), in which an alarm came; the token sampled from that
            very pass is still added. `generate` must be given ``stopping_criteria=watch.stopping_criteria``; if it is not, that is an error.
        statistic: what is compared: ``score``, each token's own, or ``mean``, over the row's compared tokens so far.
        compare: which tokens are compared: ``generated``, or ``all``, prompts too.
        score_last: also score the last generated token, in one clean pass over the finished rows when the block ends; needs the
            stopping criterion as `stop` does, because nothing else sees that token.
        force: use probes that were fitted on another model or with another chat template.

    Raises:
        InputError: the model cannot generate; something is no probe; a threshold or setting makes no sense; `generate` runs beam
            search, an assistant or another loop that cannot be followed; a stopping criterion was not passed.
        MismatchError: a probe was fitted on another model or chat template, or reads another width.
        SiteError: a site does not exist, does not run, runs twice, or the block ended with no token scored.
        ModelError: an activation is NaN or infinite; row, position and site are named.

    Examples:
        >>> import torch, transect
        >>> from transect.linear.origin import Origin
        >>> from transect.testing import tiny
        >>> model = tiny("llama")
        >>> probe = transect.Readout(weight=torch.ones(1, 16), bias=torch.zeros(1), origin=Origin(site="layers[1]"))
        >>> inputs = model.tokenizer(["The city of Paris"], return_tensors="pt", return_token_type_ids=False)
        >>> with transect.monitor(model, {"truth": probe}) as watch:
        ...     out = model.module.generate(**inputs, max_new_tokens=3, min_new_tokens=3, do_sample=False)
        >>> watch.scores["truth"].shape == out.shape, watch.n_scored, watch.runs[0].n_unscored
        (True, 7, 1)
    """
    speaker = check_speaks(model)
    readouts = read_probes(probes)
    if stop not in (False, True, "row", "all"):
        raise InputError(f"stop is False, True, 'row' or 'all', got {stop!r}.")
    for name, value, known in (("statistic", statistic, get_args(Statistic)), ("compare", compare, get_args(Where))):
        if value not in known:
            raise InputError(f"{name} is one of {known}, got {value!r}.")
    levels = read_thresholds(thresholds, readouts, statistic=statistic)
    if not levels and (on_alarm is not None or stop):
        raise InputError("on_alarm and stop need thresholds=..., or there is nothing to raise an alarm about; give a number.")
    groups = group_probes(readouts, find_places(model, readouts, force=force))
    judge = Judge(groups, levels, statistic=statistic, where=compare)
    return Watch(
        model, speaker, groups, judge, on_alarm=on_alarm, on_token=on_token, stop=stop, needs_criterion=bool(stop) or score_last,
        score_last=score_last, live=bool(levels) or on_token is not None,
    )  # fmt: skip
