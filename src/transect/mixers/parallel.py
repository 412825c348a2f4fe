"""The parallel form: the whole sequence as one masked matrix, for short sequences, for looking at it, and as a second opinion.

    o = M v + R S_0,   M = tril(Gamma * (Q W^T)) (I + stril(Gamma * (K W^T)))^{-1},   W = beta K

without beta, ``M = tril(Gamma * (Q K^T))``. It takes O(T^2) time and memory, with decays per channel O(T^2 K).
"""

import torch

from transect.mixers.algebra import Recurrence


def parallel(problem: Recurrence) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs ``[B, T, H, V]`` and final states ``[N, H, K, V]``, in plain differentiable operations.

    Examples:
        >>> from transect.mixers.algebra import recurrence
        >>> one = torch.ones(1, 3, 1, 1)
        >>> parallel(recurrence(one, one, one))[0].flatten()
        tensor([1., 2., 3.])
    """
    outputs, states = zip(*(_one(sequence) for sequence in problem.sequences()), strict=True)
    return torch.cat(outputs, 1), torch.cat(states)


def effective_matrix(problem: Recurrence) -> torch.Tensor:
    """``[B, H, T, T * r]``: how much of each value each output holds, the initial state aside.

    Examples:
        >>> from transect.mixers.algebra import recurrence
        >>> one = torch.ones(1, 2, 1, 1)
        >>> effective_matrix(recurrence(one, one, one))
        tensor([[[[1., 0.],
                  [1., 1.]]]])
    """
    batch, tokens, heads = problem.q.shape[:3]
    out = problem.q.new_zeros(batch, heads, tokens, problem.v.shape[1])
    start = 0
    for sequence in problem.sequences():
        stop = start + sequence.q.shape[1]
        between = _between(sequence.one_key_a_token())
        scores, lower = _scores(sequence, between)
        inner = scores if lower is None else scores @ _inverse(lower)
        out[:, :, start:stop, start * problem.rank : stop * problem.rank] = inner[:, :, problem.rank - 1 :: problem.rank]
        start = stop
    return out


def _one(problem: Recurrence) -> tuple[torch.Tensor, torch.Tensor]:
    rank, problem = problem.rank, problem.one_key_a_token()
    if problem.q.shape[1] == 0:
        return problem.v, problem.state
    between, state = _between(problem), problem.state
    scores, lower = _scores(problem, between)
    added, queries, keys = (part.transpose(1, 2) for part in (problem.v, problem.q * problem.scale, problem.k))
    if problem.g is not None:
        since = problem.g.transpose(1, 2).cumsum(2).exp()
        queries, keys, state = queries * since, keys * since, state * since[:, :, -1, :, None]
    if lower is not None:
        added = torch.linalg.solve_triangular(lower, added - keys @ problem.state, upper=False, unitriangular=True)
    out = scores @ added + queries @ problem.state
    writing = _writing(problem) if between is None else _writing(problem) * between[:, :, -1]
    return out.transpose(1, 2)[:, rank - 1 :: rank], state + writing.mT @ added


def _writing(problem: Recurrence) -> torch.Tensor:
    return (problem.k if problem.beta is None else problem.k * problem.beta[..., None]).transpose(1, 2)


def _between(problem: Recurrence) -> torch.Tensor | None:
    """``[B, H, T, T, 1 or K]``: what decays from after j to i. Sums start anew at every j, so a closed gate is exact."""
    if problem.g is None:
        return None
    g = problem.g.transpose(1, 2)
    after = _after(g.shape[2], g.device)
    return torch.where(after, g[:, :, :, None], 0).cumsum(2).exp()


def _after(tokens: int, device: torch.device) -> torch.Tensor:
    return torch.ones(tokens, tokens, dtype=torch.bool, device=device).tril(-1)[..., None]


def _scores(problem: Recurrence, between: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | None]:
    """P of the queries and, with beta, what is strictly below the diagonal of A, ``[B, H, T, T]``."""
    problem = problem.one_key_a_token()
    writing = _writing(problem)

    def pairs(x: torch.Tensor, diagonal: int) -> torch.Tensor:
        x = x.transpose(1, 2)
        if between is None or between.shape[-1] == 1:
            product = x @ writing.mT
            return (product if between is None else product * between[..., 0]).tril(diagonal)
        return torch.einsum("bhic,bhijc,bhjc->bhij", x, between, writing).tril(diagonal)

    return pairs(problem.q * problem.scale, 0), None if problem.beta is None else pairs(problem.k, -1)


def _inverse(lower: torch.Tensor) -> torch.Tensor:
    eye = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    return torch.linalg.solve_triangular(lower, eye.expand(lower.shape), upper=False, unitriangular=True)
