"""The levels of log-linear attention, checked, and the forms that compute them; `transect.mixers.log_linear` says what they are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.algebra import Form, recurrence
from transect.mixers.chunk import check_chunk_size
from transect.mixers.forms import choose
from transect.mixers.rows import Rows


def bits(x: torch.Tensor) -> torch.Tensor:
    """How many binary digits each integer of at least 0 has.

    Examples:
        >>> bits(torch.tensor([0, 1, 2, 3, 4]))
        tensor([0, 1, 2, 2, 3])
    """
    return torch.frexp(x.double())[1].long()


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class LevelProblem:
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
    ) -> "LevelProblem":
        """Check what the ops were given.

        Raises:
            InputError: as the ops say.
        """
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
        """Outputs in `dtype`, and the levels after them where they are wanted.

        Raises:
            InputError: a form or chunk size that does not exist.
        """
        chosen = choose(form, self.rows.real.shape[1])
        check_chunk_size(chunk_size)
        if chosen == "naive":
            out, state = _naive(self)
        elif chosen == "recurrent":
            out, state = _recurrent(self)
        elif chosen == "parallel":
            out, state = _block(self, whole=True) if self.q.shape[1] else (self.v, self.state)
        else:
            out, state = _chunked(self, chunk_size)
        return self.rows.write(out).to(dtype), functional.pad(state, (0, 0, 0, 0, 0, self.spare)) if wanted else None

    def pieces(self, sizes: list[int]) -> Iterator["LevelProblem"]:
        """The tokens in pieces one after another; the levels before each are still to be put in.

        Split at once, as the gradient of each slice by itself would be as long as the text.
        """
        parts = [part.split(sizes, 1) for part in (self.q, self.k, self.v, self.g, self.weights, self.positions, self.rows.real)]
        betas = [None] * len(sizes) if self.beta is None else self.beta.split(sizes, 1)
        for q, k, v, g, weights, positions, real, beta in zip(*parts, betas, strict=True):
            rows = Rows(places=None, real=real)
            yield replace(self, q=q, k=k, v=v, g=g, weights=weights, positions=positions, rows=rows, beta=beta)

    def row(self, n: int) -> "LevelProblem":
        """One sequence, without its filling."""
        row, part = slice(n, n + 1), slice(0, int(self.rows.lengths[n]))
        return replace(
            self,
            q=self.q[row, part],
            k=self.k[row, part],
            v=self.v[row, part],
            g=self.g[row, part],
            beta=None if self.beta is None else self.beta[row, part],
            weights=self.weights[row, part],
            positions=self.positions[row, part],
            before=self.before[row],
            state=self.state[row],
            rows=Rows(places=None, real=self.rows.real[row, part]),
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


def _moved(state: torch.Tensor, levels: torch.Tensor, count: int) -> torch.Tensor:
    """`count` levels ``[N, H, count, K, V]``: those of `state` added up where ``levels [N, L]`` says."""
    out = state.new_zeros(*state.shape[:2], count, *state.shape[3:])
    return out.scatter_add(2, levels[:, None, :, None, None].expand_as(state), state)


def _later_levels(positions: torch.Tensor, before: torch.Tensor, levels: range) -> torch.Tensor:
    """``[..., L]``: where the levels after the token at `before` are at `positions`."""
    return torch.maximum(torch.arange(levels.start, levels.stop, device=positions.device), bits(positions ^ before)[..., None])


def _chunked(given: LevelProblem, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Chunks that end where positions are multiples of `size`, so that only the levels of whole chunks go from one to the next."""
    tokens = given.q.shape[1]
    offsets = given.positions[:, :1] % size
    if not tokens:
        return given.v, given.state
    if not given.rows.real.all() or (offsets != offsets[:1]).any():  # chunks end at different places
        found = [_chunked(given.row(n), size) if int(given.rows.lengths[n]) else None for n in range(len(given.q))]
        outputs = [given.v[n : n + 1, :0] if one is None else one[0] for n, one in enumerate(found)]
        states = [given.state[n : n + 1] if one is None else one[1] for n, one in enumerate(found)]
        return torch.cat([functional.pad(out, (0, 0, 0, 0, 0, tokens - out.shape[1])) for out in outputs]), torch.cat(states)
    first = min(size - int(offsets[0]), tokens)
    sizes = [first, *[size] * ((tokens - first) // size)]
    sizes += [tokens - sum(sizes)] if sum(sizes) < tokens else []
    state, before, outputs = given.state, given.before, []
    for index, piece in enumerate(given.pieces(sizes)):
        out, state = _block(replace(piece, state=state, before=before), whole=index == len(sizes) - 1)
        outputs.append(out)
        before = piece.positions[:, -1] + 1
    return torch.cat(outputs, 1), state


def _block(given: LevelProblem, *, whole: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs, in one matrix, and levels, in plain differentiable operations.

    The levels are those after the last token or, unless `whole`, those before the next one has come but the levels have moved for it; it
    is then at a multiple of a chunk, and the levels that all of them have left are not there. `given.state` may lack them in the same way, and
    `given.before` is then the position of the first token.
    """
    q, k, v, g = (part.transpose(1, 2) for part in (given.q, given.k, given.v, given.g[..., 0]))
    size, count = q.shape[2], given.weights.shape[3]
    levels = range(count - given.state.shape[2], count)
    after = torch.ones(size, size, dtype=torch.bool, device=q.device).tril(-1)
    between = torch.where(after, g[..., None], 0).cumsum(2).exp()
    since = g.cumsum(2).exp()[..., None]
    writing = k if given.beta is None else k * given.beta.transpose(1, 2)[..., None]
    matrix, reads, ends = (q @ writing.mT * between).tril(), q * since, writing * between[:, :, -1, :, None]
    moved = given.state * since[:, :, -1, :, None, None]
    if given.beta is not None:
        lower = (k @ writing.mT * between).tril(-1)
        eye = torch.eye(size, dtype=q.dtype, device=q.device).expand_as(lower)
        inverse = torch.linalg.solve_triangular(lower, eye, upper=False, unitriangular=True)
        erased = torch.linalg.solve_triangular(lower, k * since, upper=False, unitriangular=True)  # by the inverse it would lose digits
        reads, moved = reads - matrix @ erased, moved - (ends.mT @ erased)[:, :, None] @ given.state
        matrix, ends = matrix @ inverse, inverse.mT @ ends

    def weights_at(places: torch.Tensor) -> torch.Tensor:
        return given.weights.transpose(1, 2).gather(3, places[:, None].expand(-1, q.shape[1], -1, -1))

    places = given.positions
    out = (matrix * weights_at(bits(places[:, :, None] ^ places[:, None]))) @ v
    answers = (reads @ given.state.transpose(2, 3).flatten(3)).unflatten(3, (len(levels), -1))
    out = out + (answers * weights_at(_later_levels(places, given.before[:, None], levels))[..., None]).sum(3)
    if whole:
        own = functional.one_hot(bits(places[:, -1:] ^ places), count).to(v.dtype)[:, None, :, :, None] * v[:, :, :, None]
        written = (ends.mT @ own.flatten(3)).unflatten(3, (count, -1)).transpose(2, 3)
        return out.transpose(1, 2), _moved(moved, _later_levels(places[:, -1], given.before, levels), count) + written
    following = places[:, -1] + 1
    lowest = int(bits(following & -following).min())  # what all of them hold now is at this level or above
    own = functional.one_hot(bits(following ^ places[:, -1]) - lowest, count - lowest).to(v.dtype)[:, None, :, None, None]
    moved = _moved(moved, _later_levels(following, given.before, levels) - lowest, count - lowest)
    return out.transpose(1, 2), moved + own * (ends.mT @ v)[:, :, None]


def _recurrent(given: LevelProblem) -> tuple[torch.Tensor, torch.Tensor]:
    """Token by token, all levels of all sequences at once."""
    state, before, outputs, count = given.state, given.before, [given.v[:, :0]], given.state.shape[2]
    for piece in given.pieces([1] * given.q.shape[1]):
        q, k, v = (part.transpose(1, 2) for part in (piece.q, piece.k, piece.v))
        position = piece.positions[:, 0]
        state = _moved(state, _later_levels(position, before, range(count)), count) * piece.g[:, 0, :, :, None, None].exp()
        before, added = position, k.mT @ v
        if piece.beta is not None:
            beta = piece.beta[:, 0, :, None, None]
            state = state - (beta * k.mT)[:, :, None] @ (k[:, :, None] @ state)
            added = beta * added
        state = state + functional.pad(added[:, :, None], (0, 0, 0, 0, 0, count - 1))
        outputs.append(((q[:, :, None] @ state)[..., 0, :] * piece.weights[:, 0, :, :, None]).sum(2)[:, None])
    return torch.cat(outputs, 1), state


def _naive(given: LevelProblem) -> tuple[torch.Tensor, torch.Tensor]:
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
