"""Sequence layers, untrained, under the measures of `transect.mixers.theory`: one row each."""

from collections.abc import Sequence

import torch

from transect.mixers.layers import SequenceLayer
from transect.mixers.models.kinds import Spec, layer_kinds, make, resolve
from transect.mixers.theory import interaction_rank, state_growth


def theory_table(
    layers: Sequence[Spec], *, hidden_size: int = 16, num_heads: int = 2, tokens: int = 8, inputs: int = 64, seed: int = 0
) -> tuple[list[str], list[list[str]]]:
    """Column names, and a row of text for each layer.

    The rank is at most the number of inputs and tokens (tokens + 1) / 2. Fade is the mean interaction at the longer half of the distances,
    as a share of that with the token itself; growth is the state's norm at the end over that at half, on one token repeated.

    Args:
        layers: names, or mappings with a ``kind`` and settings.
        hidden_size, num_heads: of each layer.
        tokens, inputs: how long and how many.
        seed: of weights and inputs.

    Raises:
        InputError: an unknown layer or setting, with near matches.

    Examples:
        >>> theory_table(["gla"])[0]
        ['layer', 'interaction rank', 'fade', 'state growth']
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
        found = interaction_rank(layer, x)
        fade = float((found.fade[:, tokens // 2 :].mean() / found.fade[:, 0].mean()).item())
        with torch.no_grad():
            _, inside = layer(x[:1, :1], return_inside=True)
        growth = "grows with the text"
        if inside.final_state is not None:
            norms = state_growth(layer, x[:1, :1].expand(1, 4 * tokens, -1).contiguous()).mean(1)
            growth = f"{float(norms[-1] / norms[2 * tokens - 1]):.2f}"
        name = spec if isinstance(spec, str) else str(dict(spec))
        rows.append([name, ", ".join(map(str, found.ranks)), f"{fade:.3f}", growth])
    return ["layer", "interaction rank", "fade", "state growth"], rows
