"""The gated delta rule with a bounded exact cache of the tokens that surprised it most.

Paper: A Hippocampus for Linear Attention, Cui, arXiv 2607.02303 (HOLA).

    e_t = v_t - k_t^T exp(g_t) S_{t-1}                       what the state did not predict
    score_t = beta_t |e_t|                                   what is committed to the state
    C_t = the cache_size tokens of largest score among 1 ... t
    o_t = scale * q_t^T S_t + gate_t sum_{s in C_t} softmax_s(read_q_t^T read_k_s) v_s

A token may be in the cache that it reads itself. Of equal scores the earlier stays; a score of 0 never enters. Which tokens are kept is a
choice without a gradient; gradients go through what is read. In "chunk" a token reads what the cache held at its chunk's start and the tokens of
its chunk so far, less those that better ones have driven out by then, so memory grows with T (chunk + cache_size).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.algebra import Form, recurrence
from transect.mixers.chunk import check_chunk_size
from transect.mixers.forms import CHUNK, choose, evaluate
from transect.mixers.rows import Rows


def exact_cache_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    *,
    read_q: torch.Tensor,
    read_k: torch.Tensor,
    score: torch.Tensor,
    gate: torch.Tensor,
    cache_size: int,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The gated delta rule with a bounded exact cache of the tokens of largest score.

    Args:
        q: queries ``[B, T, H, K]``.
        k: keys ``[B, T, H, K]``.
        v: values ``[B, T, H, V]``; their heads may be a multiple of those of q and k.
        g: log decays ``[B, T, H]``, at most 0.
        beta: writing strengths ``[B, T, H]`` between 0 and 2.
        read_q: queries of the cache ``[B, T, H, K]``, as they enter its softmax; as many heads as v.
        read_k: keys of the cache ``[B, T, H, K]``; as many heads as v.
        score: ``[B, T, H]``, what decides who is kept; `prediction_errors` gives those of the paper.
        gate: ``[B, T, H]``, what the cache's answer is multiplied by.
        cache_size: tokens that each head keeps; 0 leaves the gated delta rule.
        scale: what the state's readout is multiplied by; None for K ** -0.5.
        initial_state: ``[N, H, K + cache_size, V + K + 1]``, as a call before gave it back: the state in the first K rows and V columns, then a
            row for each kept token: its value, its key and its score, the largest first (not above 0 where nothing is kept).
        output_final_state: whether to give that back after the last token.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T; state and cache start anew at each.
        form: "chunk" (linear in T), "recurrent" (a loop, for decoding), "parallel" (one T x T matrix), "naive" (the definition), or "auto".
        chunk_size: tokens in a chunk, a power of two.

    Returns:
        Outputs ``[B, T, H, V]`` in the precision of v, and the final state in that of the computation (32 bits or 64), or None.

    Raises:
        InputError: log decays above 0, beta outside [0, 2], a cache_size below 0, shapes that do not belong together, bounds that do not add up,
            or a form or chunk size that does not exist.

    Examples:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> score = torch.tensor([[[2.0], [3.0], [1.0]]])  # the second drives out the first, the third does not enter
        >>> v = torch.tensor([5.0, 6.0, 7.0]).view(1, 3, 1, 1)
        >>> reading = {"read_q": one, "read_k": one, "score": score, "gate": one[..., 0], "cache_size": 1}
        >>> exact_cache_delta_rule(0 * one, one, v, 0 * one[..., 0], one[..., 0], **reading)[0].flatten()
        tensor([5., 6., 6.])
    """
    problem = recurrence(q, k, v, g=g, beta=beta, scale=scale, cu_seqlens=cu_seqlens)
    heads = problem.v.shape[:3]
    if cache_size < 0:
        raise InputError(f"expected a cache_size of 0 or more, got {cache_size}.")
    for name, part in (("read_q", read_q), ("read_k", read_k), ("score", score), ("gate", gate)):
        shape = problem.q.shape if name.startswith("read") else heads
        if part.shape != shape or not part.is_floating_point():
            raise InputError(f"expected {name} of shape {list(shape)}, got {part.dtype} {list(part.shape)}.")
    width, depth, dtype = problem.q.shape[3], problem.v.shape[3], problem.q.dtype
    shape = (len(problem.state), heads[2], width + cache_size, depth + width + 1)
    if initial_state is None:
        start = problem.q.new_zeros(shape)
    elif initial_state.shape != shape or not initial_state.is_floating_point():
        raise InputError(f"expected initial_state of shape {list(shape)}, got {initial_state.dtype} {list(initial_state.shape)}.")
    else:
        start = initial_state.to(dtype)
    chosen = choose(form, q.shape[1])
    check_chunk_size(chunk_size)
    out, state = evaluate(
        replace(problem, state=start[:, :, :width, :depth]), form=chosen, chunk_size=chunk_size, output_final_state=True, dtype=dtype
    )
    if state is None:
        raise TypeError("the final state was asked for")
    rows = Rows.of(problem.q, problem.bounds)
    new = torch.cat([problem.v, read_k.to(dtype), score.to(dtype)[..., None]], -1)
    queries, entries = (rows.read(part).transpose(1, 2) for part in (read_q.to(dtype), new))
    read = _naive if chosen == "naive" else _read
    size = {"recurrent": 1, "chunk": chunk_size}.get(chosen, max(queries.shape[2], 1))
    cache, answers = start[:, :, width:], [entries[:, :, :0, :depth]]
    for asking, coming in zip(
        queries.split(size, 2), entries.split(size, 2), strict=True
    ):  # a slice's gradient would be as long as the text
        if asking.shape[2]:
            found, cache = read(asking, coming, cache, depth)
            answers.append(found)
    answer = rows.write(torch.cat(answers, 2).transpose(1, 2))
    out = out + gate.to(dtype)[..., None] * answer
    out = torch.where(score.isnan()[..., None], score.to(dtype)[..., None], out)  # one that cannot be compared is not passed over
    final = None
    if output_final_state:
        final = torch.cat([functional.pad(state, (0, width + 1)), cache], 2)
        final = torch.where((rows.lengths == 0)[:, None, None, None], start, final)
    return out.to(v.dtype), final


def prediction_errors(
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    *,
    initial_state: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> torch.Tensor:
    """What the state of the gated delta rule does not predict of each value: ``e_t = v_t - k_t^T exp(g_t) S_{t-1}``, ``[B, T, H, V]``.

    Each token asks, with the next one's key, the state that it leaves; nothing is divided, so it holds where beta is 1, too.

    Args:
        k, v, g, beta, cu_seqlens, form, chunk_size: as in `exact_cache_delta_rule`.
        initial_state: the state before the first token, ``[N, H, K, V]``.

    Raises:
        InputError: as `exact_cache_delta_rule`.

    Examples:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> prediction_errors(one, one, 0 * one[..., 0], 0.5 * one[..., 0]).flatten()
        tensor([1.0000, 0.5000, 0.2500])
    """
    problem = recurrence(k, k, v, g=g, beta=beta, scale=1.0, initial_state=initial_state, cu_seqlens=cu_seqlens)
    tokens = k.shape[1]
    if tokens == 0 or problem.g is None:
        return problem.v
    asked = problem.k * problem.g.exp()
    places = torch.arange(tokens, device=k.device)
    if problem.bounds is None:
        firsts, states = places[:1], problem.state[:, None]
    else:
        bounds = torch.tensor(problem.bounds, device=k.device)
        some = bounds.diff() > 0
        firsts, states = bounds[:-1][some], problem.state[some][None]
    begins = torch.zeros(tokens, dtype=torch.bool, device=k.device).index_fill(0, firsts, True)
    following = torch.where(begins[:, None, None], 0, asked).roll(-1, 1)
    found, _ = evaluate(
        replace(problem, q=following), form=choose(form, tokens), chunk_size=chunk_size, output_final_state=False, dtype=problem.v.dtype
    )
    predicted = found.roll(1, 1).index_copy(1, firsts, (asked[:, firsts][..., None, :] @ states)[..., 0, :])
    return problem.v - predicted


@final
@dataclass(frozen=True, eq=False)
class _Entries:
    """Rows ``[..., V + K + 1]`` of a cache: values, keys, scores."""

    values: torch.Tensor
    keys: torch.Tensor
    scores: torch.Tensor

    @classmethod
    def of(cls, rows: torch.Tensor, depth: int) -> "_Entries":
        return cls(rows[..., :depth], rows[..., depth:-1], rows[..., -1])


def _read(queries: torch.Tensor, entries: torch.Tensor, cache: torch.Tensor, depth: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Answers ``[N, H, C, V]`` to queries ``[N, H, C, K]`` of tokens `entries`, and the cache ``[N, H, w, V + K + 1]`` after them."""
    size, held = cache.shape[2], torch.cat([cache, entries], 2)
    all_ = _Entries.of(held, depth)
    count, tokens = held.shape[2], entries.shape[2]
    scores, filled = all_.scores.detach(), all_.scores.detach() > 0
    one, other = scores[..., :, None], scores[..., None, :]
    earlier = torch.ones(count, count, dtype=torch.bool, device=held.device).triu(1)
    beats = ((one > other) | ((one == other) & earlier)) & filled[..., None]  # the row's entry beats the column's
    better = beats[..., size:, :].cumsum(2) + beats[..., :size, :].sum(2, keepdim=True)
    seen = torch.ones(tokens, count, dtype=torch.bool, device=held.device).tril(size)
    kept = (better < size) & filled[..., None, :] & seen
    logits = (queries @ all_.keys.mT).masked_fill(~kept, -torch.inf)
    top = logits.detach().amax(-1, keepdim=True) if count else 0
    weights = (logits - torch.where(kept.any(-1, keepdim=True), top, 0)).exp()
    total = weights.sum(-1, keepdim=True)
    answers = (weights @ all_.values) / torch.where(total == 0, 1, total)
    return answers, _best(held, scores, filled, size)


def _best(held: torch.Tensor, scores: torch.Tensor, filled: torch.Tensor, size: int) -> torch.Tensor:
    order = torch.sort(torch.where(filled, scores, -torch.inf), dim=-1, descending=True, stable=True).indices[..., :size]
    return held.masked_fill(~filled[..., None], 0).gather(2, order[..., None].expand(-1, -1, -1, held.shape[3]))


def _naive(queries: torch.Tensor, entries: torch.Tensor, cache: torch.Tensor, depth: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The definition: after each token all that ever came are sorted anew, and the best are read."""
    answers, caches = torch.zeros_like(entries[..., :depth]).unbind(0), []
    answers, size = [list(row.flatten(0, 1).unbind(0)) for row in answers], cache.shape[2]
    tokens = entries.shape[2]
    for n in range(len(entries)):
        for h in range(entries.shape[1]):
            known = [row for row in cache[n, h] if row[-1] > 0]
            for t in range(tokens):
                known += [entries[n, h, t]] if entries[n, h, t, -1] > 0 else []
                best = sorted(known, key=lambda row: -float(row[-1].detach()))[:size]
                if best:
                    rows = _Entries.of(torch.stack(best), depth)
                    answers[n][h * tokens + t] = torch.softmax(rows.keys @ queries[n, h, t], 0) @ rows.values
            best = sorted(known, key=lambda row: -float(row[-1].detach()))[:size]
            caches.append(torch.stack([*best, *[torch.zeros_like(cache[n, h, 0])] * (size - len(best))]) if size else cache[n, h])
    out = torch.stack([torch.stack(row) for row in answers]) if tokens and answers else entries[..., :depth]
    return out.view(entries[..., :depth].shape), torch.stack(caches).view(cache.shape)
