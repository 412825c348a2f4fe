"""The definition: the recurrence of `transect.mixers.algebra`, token by token, with every transition matrix written out.

Slow on purpose, in any precision; every other form is tested against it.
"""

import torch

from transect.mixers.algebra import Recurrence


def naive(problem: Recurrence) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs ``[B, T, H, V]`` and final states ``[N, H, K, V]``, by the definition.

    Examples:
        >>> from transect.mixers.algebra import recurrence
        >>> one = torch.ones(1, 3, 1, 1)
        >>> naive(recurrence(one, one, one))[0].flatten()
        tensor([1., 2., 3.])
    """
    outputs, states = zip(*(_one(sequence) for sequence in problem.sequences()), strict=True)
    return torch.cat(outputs, 1), torch.cat(states)


def _one(problem: Recurrence) -> tuple[torch.Tensor, torch.Tensor]:
    q, k, v, state = problem.q, problem.k, problem.v, problem.state
    eye = torch.eye(q.shape[3], dtype=q.dtype, device=q.device)
    outputs = []
    for t in range(q.shape[1]):
        transition, write = eye, torch.zeros_like(state)
        if problem.g is not None:
            transition = eye * problem.g[:, t].exp()[..., None]
        for j in range(t * problem.rank, (t + 1) * problem.rank):
            added = k[:, j, :, :, None] * v[:, j, :, None, :]
            if problem.beta is not None:
                beta = problem.beta[:, j, :, None, None]
                householder = eye - beta * k[:, j, :, :, None] * k[:, j, :, None, :]
                transition, write, added = householder @ transition, householder @ write, beta * added
            write = write + added
        state = transition @ state + write
        outputs.append(problem.scale * (q[:, t, :, None, :] @ state)[:, :, 0])
    return torch.stack(outputs, 1) if outputs else v[:, :0], state
