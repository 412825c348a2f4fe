"""How a layer's state grows with the tokens it has seen.

Linear attention adds ``k v^T`` for ever, so its norm grows as sqrt(T) for independent tokens and as T for equal ones; decays and delta rules keep it.
"""

import torch

from transect.errors import InputError
from transect.mixers.layers import Inside, SequenceLayer


def state_growth(layer: SequenceLayer, x: torch.Tensor) -> torch.Tensor:
    """``[T, H]``: the Frobenius norm of each head's state after each token, a mean over sequences.

    Args:
        layer: with a state of fixed size.
        x: ``[B, T, hidden_size]``.

    Raises:
        InputError: a layer whose memory grows with the sequence, or x of another width.

    Examples:
        >>> from transect.mixers import GLA
        >>> state_growth(GLA(hidden_size=8, num_heads=2), torch.ones(1, 3, 8)).shape
        torch.Size([3, 2])
    """
    with torch.no_grad():
        _, inside = layer(x, return_inside=True)
        if not isinstance(inside, Inside):
            raise TypeError("the inside was asked for")
        states = inside.states()
    if not len(states):
        raise InputError("expected at least one token, got none.")
    return states.flatten(3).norm(dim=-1).mean(1)
