"""Mixture of memories: several states of the gated delta rule, each written and faded only by the tokens that are sent to it.

Paper: MoM, Linear Sequence Modeling with Mixture-of-Memories, Du et al., arXiv 2502.13685.

    S_t^(m) = (I - beta_t k_t k_t^T) exp(g_t) S_{t-1}^(m) + beta_t k_t v_t^T   for the memories m that token t is sent to
    S_t^(m) = S_{t-1}^(m)                                                     for the others
    o_t = scale * sum_m w_t^(m) q_t^T S_t^(m)                                 over those that it is sent to

Every memory's tokens are gathered into a sequence of their own, so the cost is that of the gated delta rule for as many tokens as are sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch

from transect.errors import InputError
from transect.mixers.algebra import Form, Recurrence, recurrence
from transect.mixers.chunk import check_chunk_size, chunked
from transect.mixers.forms import CHUNK, choose
from transect.mixers.parallel import parallel
from transect.mixers.rows import Rows


def mixture_of_memories(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    *,
    memories: torch.Tensor,
    shares: torch.Tensor,
    num_memories: int,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Several memories of the gated delta rule, each written and faded only by the tokens that are sent to it.

    Args:
        q: queries ``[B, T, H, K]``.
        k: keys ``[B, T, H, K]``.
        v: values ``[B, T, H, V]``; their heads may be a multiple of those of q and k.
        g: log decays ``[B, T, H]``, at most 0.
        beta: writing strengths ``[B, T, H]`` between 0 and 2.
        memories: ``[B, T, R]``, integers: the R different memories that each token is sent to.
        shares: ``[B, T, R]``, what the reading of each of them is multiplied by.
        num_memories: M, how many there are.
        scale: what the readout is multiplied by; None for K ** -0.5.
        initial_state: the memories before the first token, ``[N, H, M, K, V]``; N is B, or the number of packed sequences.
        output_final_state: whether to give the memories after the last token back.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T; the memories start anew at each.
        form: "chunk" (matrix products, linear in T), "recurrent" (a loop, for decoding), "parallel" (one matrix for each memory), "naive" (the
            definition), or "auto".
        chunk_size: tokens in a chunk, a power of two.

    Returns:
        Outputs ``[B, T, H, V]`` in the precision of v, and the final memories ``[N, H, M, K, V]`` in that of the computation (32 bits or
        64), or None.

    Raises:
        InputError: log decays above 0, beta outside [0, 2], shapes that do not belong together, bounds that do not add up, memories
            that do not exist or twice the same for one token, or a form or chunk size that does not exist.

    Examples:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> memories = torch.tensor([[[0], [1], [0]]])
        >>> routes = {"memories": memories, "shares": one[..., 0], "num_memories": 2}
        >>> mixture_of_memories(one, one, one, 0 * one[..., 0], 0.5 * one[..., 0], **routes)[0].flatten()
        tensor([0.5000, 0.5000, 0.7500])
    """
    problem = recurrence(q, k, v, g=g, beta=beta, scale=scale, cu_seqlens=cu_seqlens)
    given = _Given.of(problem, memories, shares, num_memories, initial_state)
    chosen = choose(form, q.shape[1])
    check_chunk_size(chunk_size)
    if chosen == "naive":
        out, state = _naive(given)
    elif chosen == "recurrent":
        out, state = _recurrent(given)
    else:
        out, state = _gathered(given, None if chosen == "parallel" else chunk_size)
    return out.to(v.dtype), state if output_final_state else None


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Given:
    """What the op was given, checked; `state` is ``[N, H, M, K, V]``."""

    problem: Recurrence
    memories: torch.Tensor
    shares: torch.Tensor
    state: torch.Tensor

    @classmethod
    def of(cls, problem: Recurrence, memories: torch.Tensor, shares: torch.Tensor, count: int, state: torch.Tensor | None) -> "_Given":
        n, heads, width, depth = problem.state.shape
        shape = (n, heads, count, width, depth)
        if memories.ndim != 3 or memories.shape[:2] != problem.q.shape[:2] or memories.is_floating_point() or memories.dtype == torch.bool:
            raise InputError(f"expected memories {[*problem.q.shape[:2], 'R']} of integers, got {memories.dtype} {list(memories.shape)}.")
        if shares.shape != memories.shape or not shares.is_floating_point():
            raise InputError(f"expected shares of shape {list(memories.shape)}, got {shares.dtype} {list(shares.shape)}.")
        if count < 1 or (memories.numel() and not 0 <= int(memories.min()) <= int(memories.max()) < count):
            found = sorted(set(memories.flatten().tolist()))
            raise InputError(f"expected num_memories of 1 or more and memories from 0 to {count - 1}, got {count} and {found[:8]}.")
        order = memories.sort(-1).values
        if (order[..., 1:] == order[..., :-1]).any():
            raise InputError("expected different memories for each token, got one twice. Add up their shares.")
        if state is not None and (state.shape != shape or not state.is_floating_point()):
            raise InputError(
                f"expected initial_state of shape {list(shape)} ([sequences, H, M, K, V]), got {state.dtype} {list(state.shape)}."
            )
        dtype = problem.q.dtype
        start = problem.q.new_zeros(shape) if state is None else state.to(dtype)
        return cls(problem=problem, memories=memories.long(), shares=shares.to(dtype), state=start)

    def rows(self) -> tuple[Rows, dict[str, torch.Tensor]]:
        """The sequences side by side."""
        problem = self.problem
        if problem.g is None or problem.beta is None:
            raise TypeError("the gated delta rule has decays and beta")
        rows = Rows.of(problem.q, problem.bounds)
        parts = {
            "q": problem.q * problem.scale,
            "k": problem.k,
            "v": problem.v,
            "g": problem.g,
            "beta": problem.beta,
            "shares": self.shares,
        }
        return rows, {name: rows.read(part) for name, part in parts.items()}


def _gathered(given: _Given, chunk_size: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Each memory of each sequence as a packed sequence of its own, in chunks or, without a size, in one matrix each."""
    problem, (batch, tokens, sent) = given.problem, given.memories.shape
    n, heads, count = given.state.shape[:3]
    longest = tokens
    if problem.bounds is None:
        sequence = torch.arange(batch).repeat_interleave(tokens)
    else:
        lengths = torch.tensor(problem.bounds).diff()
        sequence, longest = torch.arange(n).repeat_interleave(lengths), int(lengths.max())
    place = (sequence.to(given.memories.device)[:, None] * count + given.memories.flatten(0, 1)).flatten()
    order = place.argsort(stable=True)
    bounds = (0, *place.bincount(minlength=n * count).cumsum(0).tolist())

    def gather(x: torch.Tensor) -> torch.Tensor:
        return x.flatten(0, 1).index_select(0, order // sent)[None]

    packed = replace(
        problem,
        q=gather(problem.q),
        k=gather(problem.k),
        v=gather(problem.v),
        g=None if problem.g is None else gather(problem.g),
        beta=None if problem.beta is None else gather(problem.beta),
        state=given.state.transpose(1, 2).flatten(0, 1),
        bounds=bounds,
    )
    # how long each memory's sequence is depends on later tokens, and must not decide how earlier ones are rounded
    out, state = parallel(packed) if chunk_size is None else chunked(packed, chunk_size, longest=longest)
    found = out[0].index_select(0, order.argsort()).view(batch, tokens, sent, heads, out.shape[3])
    return (found * given.shares[..., None, None]).sum(2), state.unflatten(0, (n, count)).transpose(1, 2)


def _recurrent(given: _Given) -> tuple[torch.Tensor, torch.Tensor]:
    """Token by token; of all memories only those are touched that it is sent to."""
    rows, parts = given.rows()
    sent = given.memories.shape[2]
    filling = torch.arange(sent, device=given.memories.device)
    memories = torch.where(rows.real[..., None], rows.read(given.memories), filling)
    state, outputs = given.state, [parts["v"][:, :0]]
    steps = [parts[name][:, :, :, None, None].unbind(1) for name in ("q", "k", "v")] + [
        parts[name].unbind(1) for name in ("g", "beta", "shares")
    ]
    for q, k, v, g, beta, shares, places in zip(*steps, memories.unbind(1), strict=True):
        index = places[:, None, :, None, None].expand(-1, state.shape[1], -1, *state.shape[3:])
        chosen = state.gather(2, index) * g[:, :, None, None].exp()
        added = beta[:, :, None, None, None] * (v - k @ chosen)
        chosen = chosen + k.mT * added
        state = state.scatter(2, index, chosen)
        outputs.append(((q @ chosen)[..., 0, :] * shares[:, None, :, None]).sum(2)[:, None])
    return rows.write(torch.cat(outputs, 1)), state


def _naive(given: _Given) -> tuple[torch.Tensor, torch.Tensor]:
    """The definition: every token goes past every memory, and changes those that it is sent to."""
    rows, parts = given.rows()
    memories = rows.read(given.memories)
    eye = torch.eye(given.state.shape[3], dtype=given.state.dtype, device=given.state.device)
    states, outputs = list(given.state.unbind(2)), [parts["v"][:, :0]]
    for t in range(memories.shape[1]):
        k, v, beta = parts["k"][:, t], parts["v"][:, t], parts["beta"][:, t, :, None, None]
        householder = eye - beta * k[..., :, None] * k[..., None, :]
        transition, write = householder @ (eye * parts["g"][:, t, :, :, None].exp()), beta * k[..., :, None] * v[..., None, :]
        out = torch.zeros_like(v)
        for m, state in enumerate(states):
            here = (memories[:, t] == m) & rows.real[:, t, None]
            mine = here.any(1)
            states[m] = torch.where(mine[:, None, None, None], transition @ state + write, state)
            share = torch.where(here, parts["shares"][:, t], 0).sum(1)
            answer = (parts["q"][:, t, :, None] @ states[m])[:, :, 0]
            out = out + torch.where(mine[:, None, None], share[:, None, None] * answer, 0)
        outputs.append(out[:, None])
    return rows.write(torch.cat(outputs, 1)), torch.stack(states, 2)
