"""Curvature-conditioned queries around any layer of queries, keys and values.

Paper: Don't Read Everything: A Curvature-Conditioned Query for Linear Attention, Le et al., arXiv 2606.01294.

    q~_t = q_t - eta C_t^T (q_t / n_t),   C_t the second moment of the keys under the layer's own decay and n_t its trace

Only reading changes: states, gates and writes are those of the layer inside. `transect.mixers.curvature_query` has the formula.
"""

from collections.abc import Callable
from typing import final

import torch
from torch import nn

from transect.errors import InputError
from transect.mixers.algebra import Form
from transect.mixers.curvature_query import curvature_query
from transect.mixers.layers.base import Inside, Mixed, Past, SequenceLayer
from transect.mixers.layers.gated_delta_net import GatedDeltaNet
from transect.mixers.layers.linear_attention_layer import LinearAttention
from transect.mixers.layers.packing import Packing
from transect.mixers.layers.projected import ProjectedLayer


@final
class CurvatureQuery(SequenceLayer):
    """Curvature-conditioned queries around any layer of queries, keys and values; a `GatedDeltaNet` unless another is given.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences. In `Inside.inputs`, q is the contracted
    query, and states are those of the layer inside.

    The curvature fades as the layer's state does where the layer's op takes decays g; where it takes none (`DeltaNet`), or has fixed
    ones of its own (`RetNet`), it does not fade. The keys of a layer that makes them from its decays (`HGRN2`) are ``1 - exp(g)``.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for what the layer inside makes of it.
        head_v_dim: width of a head's values; None for what the layer inside makes of it.
        base: makes the layer inside from these sizes and settings: a class, or a partial of one for settings that are not here.
        eta: how much is taken away at first, from 0 to 1; learned, one number for each head.
        conv_size: tokens that the short convolution sees; None for no convolution.
        use_gate: whether the output is gated by the input.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: an eta outside [0, 1], sizes that the layer inside refuses, or a layer inside that divides by sums of weights, which
            contracted queries can make 0.

    Examples:
        >>> import torch
        >>> from transect.mixers import GLA
        >>> layer = CurvatureQuery(hidden_size=16, num_heads=2, base=GLA)
        >>> layer(torch.ones(1, 3, 16)).shape
        torch.Size([1, 3, 16])
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_k_dim: int | None = None,
        head_v_dim: int | None = None,
        base: Callable[..., ProjectedLayer] = GatedDeltaNet,
        eta: float = 0.5,
        conv_size: int | None = 4,
        use_gate: bool = True,
        norm_eps: float = 1e-5,
        layer_idx: int = 0,
    ) -> None:
        super().__init__(hidden_size=hidden_size, layer_idx=layer_idx)
        if not 0 <= eta <= 1:
            raise InputError(f"expected an eta from 0 to 1 (it contracts), got {eta}.")
        self.base = base(
            hidden_size=hidden_size,
            num_heads=num_heads,
            head_k_dim=head_k_dim,
            head_v_dim=head_v_dim,
            conv_size=conv_size,
            use_gate=use_gate,
            norm_eps=norm_eps,
            layer_idx=layer_idx,
        )
        if isinstance(self.base, LinearAttention) and self.base.normalize:
            raise InputError(
                "expected a layer that does not divide by its sum of weights, got a normalised LinearAttention. Use normalize=False."
            )
        self.eta = nn.Parameter(torch.full((num_heads,), float(eta)))

    def mix(self, x: torch.Tensor, *, past: Past, packing: Packing, form: Form) -> Mixed:
        """As the layer inside does, with contracted queries."""
        q, k, v, parts = self.base.project(x, past=past, packing=packing)
        given = self.base.inputs(x, q, k, v)
        keys, decays = given.get("k"), given.get("g")
        if keys is None:
            if decays is None:
                raise InputError(f"expected a layer whose op takes keys or decays, got {type(self.base).__name__} with {sorted(given)}.")
            keys = 1 - decays.exp()
        given["q"], curvature = curvature_query(
            given["q"],
            keys,
            decays,
            self.eta,
            num_householder=self.base.keys_per_token,
            initial_state=past.parts.get("curvature"),
            output_final_state=True,
            cu_seqlens=packing.bounds,
            form=form,
        )
        if "k" in given:  # contracted queries differ from head to head, so keys that heads shared are spelt out
            given["k"] = given["k"].repeat_interleave(len(self.eta) // given["k"].shape[2], 2)
        start, op = past.parts.get("state"), self.base.op
        o, state = op(**given, initial_state=start, output_final_state=True, cu_seqlens=packing.bounds, form=form)
        if state is None or curvature is None:
            raise TypeError("the final states were asked for")
        parts["state"], parts["curvature"] = state, curvature
        inside = Inside(inputs=given, o=o, initial_state=start, final_state=state, cu_seqlens=packing.bounds, op=op)
        return Mixed(y=self.base.o_proj(self.base.finish(x, o, v).flatten(2)), parts=parts, inside=inside)
