"""The recurrent form: one state, updated token by token; what a decoding step runs.

    S <- Diag(exp(g)) S;   S <- S + beta k (v - k^T S)^T  for each key of the token;   o = scale q^T S

The transition matrix is never formed: a token costs O(K V) per head.
"""

import torch

from transect.mixers.algebra import Recurrence


def recurrent(problem: Recurrence) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs ``[B, T, H, V]`` and final states ``[N, H, K, V]``; autograd follows the loop.

    Examples:
        >>> from transect.mixers.algebra import recurrence
        >>> one = torch.ones(1, 3, 1, 1)
        >>> recurrent(recurrence(one, one, one))[0].flatten()
        tensor([1., 2., 3.])
    """
    if problem.bounds is None:
        return _one(problem)
    outputs, states = zip(*(_one(sequence) for sequence in problem.sequences()), strict=True)
    return torch.cat(outputs, 1), torch.cat(states)


def _one(problem: Recurrence) -> tuple[torch.Tensor, torch.Tensor]:
    batch, tokens, heads, _ = problem.q.shape
    if tokens == 0:
        return problem.v[:, :0], problem.state
    queries, keys, values = (_by_token(part, 1, part.shape[3]) for part in (problem.q * problem.scale, problem.k, problem.v))
    decays = None if problem.g is None else _by_token(problem.g.exp(), problem.g.shape[3], 1)
    betas = None if problem.beta is None else _by_token(problem.beta, 1, 1)
    state = problem.state.flatten(0, 1)
    outputs = []
    for t in range(tokens):
        if decays is not None:
            state = state * decays[t]
        for j in range(t * problem.rank, (t + 1) * problem.rank):
            added = values[j]
            if betas is not None:
                added = betas[j] * torch.baddbmm(added, keys[j], state, alpha=-1)
            state = torch.addcmul(state, keys[j].mT, added)
        outputs.append(torch.bmm(queries[t], state))
    state = state.unflatten(0, (batch, heads))
    if tokens == 1:  # a decoding step pays for every call
        return outputs[0].reshape(batch, 1, heads, -1), state
    return torch.stack(outputs).unflatten(1, (batch, heads)).squeeze(3).transpose(0, 1), state


def _by_token(x: torch.Tensor, rows: int, columns: int) -> tuple[torch.Tensor, ...]:
    """``[B, T, H, ...]`` as T matrices for each sequence and head, ``[B * H, rows, columns]``."""
    batch, tokens, heads = x.shape[:3]
    if tokens == 1:
        return (x.reshape(batch * heads, rows, columns),)
    return x.transpose(0, 1).reshape(tokens, batch * heads, rows, columns).unbind()
