"""Sequence layers, untrained, under the measures of `transect.mixers.theory`: one row each."""

from collections.abc import Sequence

import torch

from transect.mixers.layers import SequenceLayer
from transect.mixers.models.kinds import Spec, layer_kinds, make, resolve
from transect.mixers.theory import expressiveness, interaction_rank, recover_input, state_growth, step_spectrum

_LARGEST = 2048
"""Numbers of a state whose Jacobian still takes seconds."""


def theory_table(
    layers: Sequence[Spec], *, hidden_size: int = 16, num_heads: int = 2, tokens: int = 8, inputs: int = 64, seed: int = 0
) -> tuple[list[str], list[list[str]]]:
    """Column names, and a row of text for each layer.

    - Interaction rank: at most the number of inputs and tokens (tokens + 1) / 2.
    - Fade: the mean interaction at the longer half of the distances, as a share of that with the token itself.
    - State growth: the state's norm at the end over that at half, on one token repeated.
    - Step norm and lowest eigenvalue: of the Jacobian of the last step, of the first head's state; the spectral norm and the least real part.
      Below 0 a step can turn a state round; above a norm of 1 it can make a difference larger. "Too large" is a head of more than 2,048 numbers.
    - Recovery error: how wrongly least squares reads small changes of 2 tokens inputs back from all that the layer remembers, as a share of the
      changes: 0 loses nothing that 16 bits can hold, 1 keeps nothing (`transect.mixers.theory.recover_input`).

    A dash stands where a layer has nothing to measure: no op whose values can be told from the rest, or a memory that grows.

    Args:
        layers: names, or mappings with a ``kind`` and settings.
        hidden_size, num_heads: of each layer.
        tokens, inputs: how long and how many.
        seed: of weights and inputs.

    Raises:
        InputError: an unknown layer or setting, with near matches.

    Examples:
        >>> theory_table(["gla"])[0]
        ['layer', 'interaction rank', 'fade', 'state growth', 'step norm', 'lowest eigenvalue', 'recovery error']
    """
    rows = []
    for spec in layers:
        kind, settings = resolve(spec, layer_kinds(), what="layer")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layer = make(kind, settings, hidden_size=hidden_size, num_heads=num_heads, layer_idx=0).double()
        if not isinstance(layer, SequenceLayer):
            raise TypeError("a kind of layer makes a layer")
        x = torch.randn(inputs, tokens, hidden_size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        name = spec if isinstance(spec, str) else str(dict(spec))
        rows.append([name, *_measures(layer, x, seed=seed)])
    return ["layer", "interaction rank", "fade", "state growth", "step norm", "lowest eigenvalue", "recovery error"], rows


def expressiveness_table(*, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    """Column names, and a row of text for each number of states: how wrong a linear and a nonlinear readout of a linear recurrence are.

    What they are to say is the product of the newest of 8 inputs and the oldest (`transect.mixers.theory.expressiveness`): 1 is no better
    than a constant; 4 complex states are as many numbers as there are inputs.
    """
    found = expressiveness([1, 2, 3, 4, 8], generator=torch.Generator().manual_seed(seed))
    rows = [[str(each.states), f"{each.linear:.3f}", f"{each.nonlinear:.3f}"] for each in found]
    return ["complex states", "error of a linear readout", "error with a hidden layer"], rows


def _measures(layer: SequenceLayer, x: torch.Tensor, *, seed: int) -> list[str]:
    tokens = x.shape[1]
    with torch.no_grad():
        _, inside = layer(x[:1, :1], return_inside=True)
    rank = fade = growth = norm = lowest = recovery = "-"
    if inside.op is not None:
        found = interaction_rank(layer, x)
        rank = ", ".join(map(str, found.ranks)) if len(found.ranks) <= 4 else f"{min(found.ranks)} to {max(found.ranks)}"
        fade = f"{float(found.fade[:, tokens // 2 :].mean() / found.fade[:, 0].mean()):.3f}"
        growth = "grows with the text"
    if inside.op is not None and inside.final_state is not None:
        norms = state_growth(layer, x[:1, :1].expand(1, 4 * tokens, -1).contiguous()).mean(1)
        growth = f"{float(norms[-1] / norms[2 * tokens - 1]):.2f}"
        norm = lowest = "too large"
        if inside.final_state[0, 0].numel() <= _LARGEST:
            step = step_spectrum(layer, x[:1])
            norm, lowest = (f"{value:.3f}".replace("-0.000", "0.000") for value in (step.norm, float(step.eigenvalues.real.min())))
    if inside.op is None or inside.final_state is not None:
        draw = torch.Generator().manual_seed(seed)
        around = torch.randn(2, 2 * tokens, x.shape[2], generator=draw, dtype=x.dtype)
        recovery = f"{recover_input(layer, around, generator=draw).error:.3f}"
    return [rank, fade, growth, norm, lowest, recovery]
