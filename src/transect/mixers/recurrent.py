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
    queries, keys, values = (_by_token(part) for part in (problem.q * problem.scale, problem.k, problem.v))
    decays = None if problem.g is None else _by_token(problem.g.exp())
    betas = None if problem.beta is None else _by_token(problem.beta)
    state = problem.state.flatten(0, 1)
    outputs = []
    for t in range(tokens):
        if decays is not None:
            state = state * decays[t][:, :, None]
        for j in range(t * problem.rank, (t + 1) * problem.rank):
            added = values[j][:, None]
            if betas is not None:
                added = betas[j][:, None, None] * torch.baddbmm(added, keys[j][:, None], state, alpha=-1)
            state = torch.addcmul(state, keys[j][:, :, None], added)
        outputs.append(torch.bmm(queries[t][:, None], state)[:, 0])
    state = state.unflatten(0, (batch, heads))
    if tokens == 1:  # a decoding step pays for every call
        return outputs[0].unflatten(0, (batch, 1, heads)), state
    return torch.stack(outputs).unflatten(1, (batch, heads)).transpose(0, 1), state


def _by_token(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """``[B, T, H, ...]`` as T tensors ``[B * H, ...]``."""
    if x.shape[1] == 1:
        return (x.flatten(0, 2),)
    return x.transpose(0, 1).flatten(1, 2).unbind()
