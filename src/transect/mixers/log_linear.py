"""Log-linear attention: a state for each power of two of the past, over additive writes and over the gated delta rule.

Paper: Log-Linear Attention, Guo, Yang, Goel, Xing, Dao and Kim, arXiv 2506.04761.

    S_t^(l) = A_t merged(S_{t-1})^(l) + [l = 0] B_t,   o_t = scale * sum_l lambda_t^(l) q_t^T S_t^(l)

A_t and B_t are those of `transect.mixers.algebra`. The levels count as a binary number does: before the token at position t, counted from 0,
the levels up to the number of trailing zeros of t move together into the next one. So token s is at level ``bits(t xor s)`` of token t: level
0 is the token itself, level l the past's block of 2 ** (l - 1) tokens. With M the matrix of the base (Mamba-2, or Gated DeltaNet with its
inverse), that is

    o = (M * H) v,   H_ts = lambda_t^(bits(t xor s))

In "chunk", a chunk is one such matrix, and between chunks go the L states of the levels: O(T log T) for texts of T tokens. Autograd keeps those
states for each chunk.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.algebra import Form, recurrence
from transect.mixers.chunk import check_chunk_size
from transect.mixers.forms import CHUNK, choose
from transect.mixers.rows import Rows


def log_linear_simple_gla(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    level_weights: torch.Tensor,
    *,
    positions: torch.Tensor | None = None,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-linear attention with one data-dependent decay per head (log-linear Mamba-2).

    Args:
        q: queries ``[B, T, H, K]``.
        k: keys ``[B, T, H, K]``.
        v: values ``[B, T, H, V]``; their heads may be a multiple of those of q and k.
        g: log decays ``[B, T, H]``, at most 0; -inf forgets everything.
        level_weights: ``[B, T, H, L]``, what each level's answer is multiplied by; L levels hold ``2 ** (L - 1)`` tokens.
        positions: ``[B, T]``, integers: where each token stands in its sequence; None where all sequences begin here.
        scale: what the readout is multiplied by; None for K ** -0.5.
        initial_state: the levels before the first token, ``[N, H, L, K, V]``; N is B, or the number of packed sequences.
        output_final_state: whether to give the levels after the last token back.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T.
        form: "chunk" (matrix products, O(T log T)), "recurrent" (a loop, for decoding), "parallel" (one T x T matrix), "naive" (the
            definition), or "auto".
        chunk_size: tokens in a chunk, a power of two.

    Returns:
        Outputs ``[B, T, H, V]`` in the precision of v, and the final levels ``[N, H, L, K, V]`` in that of the computation (32 bits or
        64), or None.

    Raises:
        InputError: log decays above 0, shapes that do not belong together, bounds that do not add up, positions that do not count up or
            that L levels cannot hold, a state without positions, or a form or chunk size that does not exist.

    Examples:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> log_linear_simple_gla(one, one, one, 0 * one[..., 0], torch.tensor([1.0, 10.0, 100.0]).expand(1, 3, 1, 3))[0].flatten()
        tensor([  1.,  11., 201.])
    """
    given = _Given.of(q, k, v, g, None, level_weights, positions, scale, initial_state, cu_seqlens)
    return given.evaluate(form, chunk_size, output_final_state, v.dtype)


def log_linear_gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    level_weights: torch.Tensor,
    *,
    positions: torch.Tensor | None = None,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    form: Form = "auto",
    chunk_size: int = CHUNK,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-linear attention over the gated delta rule (log-linear Gated DeltaNet): each level erases what it holds along the key.

    Args:
        q: queries ``[B, T, H, K]``.
        k: keys ``[B, T, H, K]``.
        v: values ``[B, T, H, V]``; their heads may be a multiple of those of q and k.
        g: log decays ``[B, T, H]``, at most 0; -inf forgets everything.
        beta: writing strengths ``[B, T, H]`` between 0 and 2.
        level_weights: ``[B, T, H, L]``, what each level's answer is multiplied by; L levels hold ``2 ** (L - 1)`` tokens.
        positions: ``[B, T]``, integers: where each token stands in its sequence; None where all sequences begin here.
        scale: what the readout is multiplied by; None for K ** -0.5.
        initial_state: the levels before the first token, ``[N, H, L, K, V]``; N is B, or the number of packed sequences.
        output_final_state: whether to give the levels after the last token back.
        cu_seqlens: where sequences packed into a batch of 1 begin, and T.
        form: "chunk" (matrix products, O(T log T)), "recurrent" (a loop, for decoding), "parallel" (one T x T matrix), "naive" (the
            definition), or "auto".
        chunk_size: tokens in a chunk, a power of two.

    Returns:
        Outputs ``[B, T, H, V]`` in the precision of v, and the final levels ``[N, H, L, K, V]`` in that of the computation (32 bits or
        64), or None.

    Raises:
        InputError: log decays above 0, beta outside [0, 2], shapes that do not belong together, bounds that do not add up, positions that
            do not count up or that L levels cannot hold, a state without positions, or a form or chunk size that does not exist.

    Examples:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> levels = torch.tensor([1.0, 10.0, 100.0]).expand(1, 3, 1, 3)
        >>> log_linear_gated_delta_rule(one, one, one, 0 * one[..., 0], 0.5 * one[..., 0], levels)[0].flatten()
        tensor([ 0.5000,  3.0000, 38.0000])
    """
    given = _Given.of(q, k, v, g, beta, level_weights, positions, scale, initial_state, cu_seqlens)
    return given.evaluate(form, chunk_size, output_final_state, v.dtype)


def bits(x: torch.Tensor) -> torch.Tensor:
    """How many binary digits each integer of at least 0 has.

    Examples:
        >>> bits(torch.tensor([0, 1, 2, 3, 4]))
        tensor([0, 1, 2, 2, 3])
    """
    return torch.frexp(x.double())[1].long()


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Given:
    """Sequences side by side, checked; q is scaled, and g is ``[N, M, H, 1]``.

    `before [N]` is the position of the last token before the first one (0 where there is none: nothing moves at position 0). Without an
    initial state there are only as many levels as the last position needs, and `spare` ones are zero at the end.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    g: torch.Tensor
    beta: torch.Tensor | None
    weights: torch.Tensor
    positions: torch.Tensor
    before: torch.Tensor
    state: torch.Tensor
    rows: Rows
    spare: int

    @classmethod
    def of(  # noqa: PLR0917 - the two ops pass on what they were given
        cls,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        g: torch.Tensor,
        beta: torch.Tensor | None,
        weights: torch.Tensor,
        positions: torch.Tensor | None,
        scale: float | None,
        state: torch.Tensor | None,
        cu_seqlens: torch.Tensor | Sequence[int] | None,
    ) -> "_Given":
        problem = recurrence(q, k, v, g=g, beta=beta, scale=scale, cu_seqlens=cu_seqlens)
        if problem.g is None:
            raise InputError("expected log decays, got None.")
        if weights.ndim != 4 or weights.shape[:3] != problem.v.shape[:3] or weights.shape[3] < 1 or not weights.is_floating_point():
            raise InputError(f"expected level_weights of shape {[*problem.v.shape[:3], 'L']}, got {weights.dtype} {list(weights.shape)}.")
        count, heads, width, depth = problem.state.shape
        shape = (count, heads, weights.shape[3], width, depth)
        if state is not None and (state.shape != shape or not state.is_floating_point()):
            raise InputError(
                f"expected initial_state of shape {list(shape)} ([sequences, H, L, K, V]), got {state.dtype} {list(state.shape)}."
            )
        if positions is None and state is not None:
            raise InputError("expected positions with an initial_state, as levels depend on where a text goes on; got none.")
        rows = Rows.of(problem.q, problem.bounds)
        places = _places(positions, rows, problem.q, weights.shape[3])
        spare = 0 if state is not None or not places.numel() else weights.shape[3] - 1 - int(bits(places.max()))
        weights = weights[..., : weights.shape[3] - spare].to(problem.q.dtype)
        return cls(
            q=rows.read(problem.q * problem.scale),
            k=rows.read(problem.k),
            v=rows.read(problem.v),
            g=rows.read(problem.g),
            beta=None if problem.beta is None else rows.read(problem.beta),
            weights=rows.read(weights),
            positions=places,
            before=(places[:, 0] - 1).clamp(min=0) if places.shape[1] else places.new_zeros(count),
            state=problem.q.new_zeros(count, heads, weights.shape[3], width, depth) if state is None else state.to(problem.q.dtype),
            rows=rows,
            spare=spare,
        )

    def evaluate(self, form: Form, chunk_size: int, wanted: bool, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor | None]:
        chosen = choose(form, self.rows.real.shape[1])
        check_chunk_size(chunk_size)
        if chosen == "naive":
            out, state = _naive(self)
        elif chosen == "recurrent":
            out, state = _recurrent(self)
        else:
            size = chunk_size if chosen == "chunk" else max(self.q.shape[1], 1)
            state, before, outputs = self.state, self.before, [self.v[:, :0]]
            for start in range(0, self.q.shape[1], size):
                part = self.tokens(start, start + size, state, before)
                found, state = _block(part)
                outputs.append(found)
                before = part.positions[:, -1]
            out = torch.cat(outputs, 1)
        return self.rows.write(out).to(dtype), functional.pad(state, (0, 0, 0, 0, 0, self.spare)) if wanted else None

    def tokens(self, start: int, stop: int, state: torch.Tensor, before: torch.Tensor) -> "_Given":
        part = slice(start, stop)
        return replace(
            self,
            q=self.q[:, part],
            k=self.k[:, part],
            v=self.v[:, part],
            g=self.g[:, part],
            beta=None if self.beta is None else self.beta[:, part],
            weights=self.weights[:, part],
            positions=self.positions[:, part],
            before=before,
            state=state,
        )


def _places(positions: torch.Tensor | None, rows: Rows, like: torch.Tensor, levels: int) -> torch.Tensor:
    """``[N, M]``, checked; filling stands where the last token does, so that no level moves."""
    steps = torch.arange(rows.real.shape[1], device=like.device)
    if positions is None:
        places = steps.expand(rows.real.shape)
    else:
        if positions.shape != like.shape[:2] or positions.is_floating_point() or positions.dtype == torch.bool:
            raise InputError(f"expected positions {list(like.shape[:2])} of integers, got {positions.dtype} {list(positions.shape)}.")
        places = rows.read(positions.long())
    if not rows.real.numel():
        return places
    if ((places != places[:, :1] + steps) & rows.real).any() or (places[:, 0] < 0).any():
        raise InputError("expected positions that count up by one in each sequence, from 0 or more. Pass those of the tokens given.")
    last = places.gather(1, (rows.lengths - 1).clamp(min=0)[:, None])
    if int(last.max()) >= 2 ** (levels - 1):
        raise InputError(
            f"expected texts of at most 2 ** {levels - 1} = {2 ** (levels - 1)} tokens with {levels} levels, got one of"
            f" {int(last.max()) + 1}. Use more levels."
        )
    return torch.where(rows.real, places, last)


def _moved(state: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """States ``[N, H, L, K, V]`` with each level added up where ``levels [N, L]`` says."""
    return torch.zeros_like(state).scatter_add(2, levels[:, None, :, None, None].expand_as(state), state)


def _later_levels(positions: torch.Tensor, before: torch.Tensor, levels: int) -> torch.Tensor:
    """``[..., L]``: where the levels after the token at `before` are at `positions`."""
    return torch.maximum(torch.arange(levels, device=positions.device), bits(positions ^ before)[..., None])


def _block(given: _Given) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs and the levels after them, in one matrix, in plain differentiable operations."""
    q, k, v, g = (part.transpose(1, 2) for part in (given.q, given.k, given.v, given.g[..., 0]))
    size, levels = q.shape[2], given.state.shape[2]
    after = torch.ones(size, size, dtype=torch.bool, device=q.device).tril(-1)
    between = torch.where(after, g[..., None], 0).cumsum(2).exp()
    since = g.cumsum(2).exp()[..., None]
    writing = k if given.beta is None else k * given.beta.transpose(1, 2)[..., None]
    matrix, reads, ends = (q @ writing.mT * between).tril(), q * since, writing * between[:, :, -1, :, None]
    fade = since[:, :, -1:] * torch.eye(q.shape[3], dtype=q.dtype, device=q.device)
    if given.beta is not None:
        lower = (k @ writing.mT * between).tril(-1)
        eye = torch.eye(size, dtype=q.dtype, device=q.device).expand_as(lower)
        inverse = torch.linalg.solve_triangular(lower, eye, upper=False, unitriangular=True)
        matrix, ends = matrix @ inverse, inverse.mT @ ends
        reads, fade = reads - matrix @ (k * since), fade - ends.mT @ (k * since)

    def weights_at(places: torch.Tensor) -> torch.Tensor:
        return given.weights.transpose(1, 2).gather(3, places[:, None].expand(-1, q.shape[1], -1, -1))

    places = given.positions
    out = (matrix * weights_at(bits(places[:, :, None] ^ places[:, None]))) @ v
    answers = (reads @ given.state.transpose(2, 3).flatten(3)).unflatten(3, (levels, -1))
    out = out + (answers * weights_at(_later_levels(places, given.before[:, None], levels))[..., None]).sum(3)
    own = functional.one_hot(bits(places[:, -1:] ^ places), levels).to(v.dtype)[:, None, :, :, None] * v[:, :, :, None]
    written = (ends.mT @ own.flatten(3)).unflatten(3, (levels, -1)).transpose(2, 3)
    moved = _moved(fade[:, :, None] @ given.state, _later_levels(places[:, -1], given.before, levels))
    return out.transpose(1, 2), moved + written


def _recurrent(given: _Given) -> tuple[torch.Tensor, torch.Tensor]:
    """Token by token, all levels of all sequences at once."""
    state, before, outputs = given.state, given.before, [given.v[:, :0]]
    levels = state.shape[2]
    for t in range(given.q.shape[1]):
        q, k, v = (part[:, t, :, None] for part in (given.q, given.k, given.v))
        state = _moved(state, _later_levels(given.positions[:, t], before, levels)) * given.g[:, t, :, :, None, None].exp()
        before, added = given.positions[:, t], k.mT @ v
        if given.beta is not None:
            beta = given.beta[:, t, :, None, None]
            state = state - (beta * k.mT)[:, :, None] @ (k[:, :, None] @ state)
            added = beta * added
        state = state + functional.pad(added[:, :, None], (0, 0, 0, 0, 0, levels - 1))
        outputs.append(((q[:, :, None] @ state)[..., 0, :] * given.weights[:, t, :, :, None]).sum(2)[:, None])
    return torch.cat(outputs, 1), state


def _naive(given: _Given) -> tuple[torch.Tensor, torch.Tensor]:
    """The definition: a list of levels for each sequence, every transition written out, and the merging of a binary counter."""
    eye = torch.eye(given.q.shape[3], dtype=given.q.dtype, device=given.q.device)
    outputs, states = [], []
    for n, length in enumerate(given.rows.lengths.tolist()):
        levels, row = list(given.state[n].unbind(1)), []
        for t in range(length):
            position = int(given.positions[n, t])
            if position:
                zeros = (position & -position).bit_length() - 1
                levels[zeros + 1] = levels[zeros + 1] + sum(levels[: zeros + 1])
                levels[: zeros + 1] = [torch.zeros_like(level) for level in levels[: zeros + 1]]
            k, v = given.k[n, t], given.v[n, t]
            transition, write = eye * given.g[n, t, :, :, None].exp(), k[:, :, None] * v[:, None]
            if given.beta is not None:
                beta = given.beta[n, t, :, None, None]
                transition, write = (eye - beta * k[:, :, None] * k[:, None]) @ transition, beta * write
            levels = [transition @ level for level in levels]
            levels[0] = levels[0] + write
            answers = torch.stack([(given.q[n, t, :, None] @ level)[:, 0] for level in levels], 1)
            row.append((given.weights[n, t, :, :, None] * answers).sum(1))
        padded = torch.zeros_like(given.v[n])
        outputs.append(torch.cat([torch.stack(row), padded[length:]]) if row else padded)
        states.append(torch.stack(levels, 1))
    return torch.stack(outputs), torch.stack(states)
