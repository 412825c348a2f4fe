"""Gated DeltaNet with a bounded exact cache of the tokens that surprised it most.

Paper: A Hippocampus for Linear Attention, Cui, arXiv 2607.02303 (HOLA).

    score_t = beta_t |v_t - k_t^T exp(g_t) S_{t-1}|,   o_t = q_t^T S_t + sigmoid(W_c x_t) cache_t
    cache_t = sum_{s kept} softmax_s(rms(q_t)^T rms(k_s) / sqrt(K)) v_s,   rms = RMSNorm with weights of its own for q and for k

q and k enter the cache's norms as the convolution leaves them, before they are made units. How the cache's answer is gated is this package's
choice: one sigmoid for each head.
"""

from functools import partial
from typing import final

import torch
from torch import nn

from transect.errors import InputError
from transect.mixers.algebra import Form
from transect.mixers.exact_cache import exact_cache_delta_rule, prediction_errors
from transect.mixers.layers.base import Inside, Mixed, Op, Past, SequenceLayer
from transect.mixers.layers.gated_delta_net import GatedDeltaNet
from transect.mixers.layers.packing import Packing


@final
class ExactCacheDeltaNet(SequenceLayer):
    """Gated DeltaNet with a bounded exact cache of the tokens that surprised it most.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences. In `Inside.inputs`, `score` is what
    each token surprised by; scores are inputs of the op, so the effective matrix holds what is kept as it is.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        cache_size: tokens that each head keeps.
        conv_size: tokens that the short convolution sees; None for no convolution.
        use_gate: whether the output is gated by the input.
        allow_neg_eigval: whether beta may reach 2, so that a key can be reflected, and parities counted.
        norm_eps: epsilon of the output norm and of the cache's norms.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide, or a cache_size below 0.

    Examples:
        >>> import torch
        >>> layer = ExactCacheDeltaNet(hidden_size=16, num_heads=2)
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
        cache_size: int = 64,
        conv_size: int | None = 4,
        use_gate: bool = True,
        allow_neg_eigval: bool = False,
        norm_eps: float = 1e-5,
        layer_idx: int = 0,
    ) -> None:
        super().__init__(hidden_size=hidden_size, layer_idx=layer_idx)
        if cache_size < 0:
            raise InputError(f"expected a cache_size of 0 or more, got {cache_size}.")
        self.base = GatedDeltaNet(
            hidden_size=hidden_size,
            num_heads=num_heads,
            head_k_dim=head_k_dim,
            head_v_dim=head_v_dim,
            conv_size=conv_size,
            use_gate=use_gate,
            allow_neg_eigval=allow_neg_eigval,
            norm_eps=norm_eps,
            layer_idx=layer_idx,
        )
        self.cache_size = cache_size
        self.read_q_norm = nn.RMSNorm(self.base.head_k_dim, eps=norm_eps)
        self.read_k_norm = nn.RMSNorm(self.base.head_k_dim, eps=norm_eps)
        self.cache_gate_proj = nn.Linear(hidden_size, num_heads)

    @property
    def op(self) -> Op:
        """The gated delta rule with a cache of this size."""
        return partial(exact_cache_delta_rule, cache_size=self.cache_size)

    def mix(self, x: torch.Tensor, *, past: Past, packing: Packing, form: Form) -> Mixed:
        """As the base does, with what the cache answers added to what the state answers."""
        q, k, v, parts = self.base.project(x, past=past, packing=packing)
        given = self.base.inputs(x, q, k, v)
        start = past.parts.get("state")
        with torch.no_grad():  # who is kept is a choice, without a gradient
            errors = prediction_errors(
                given["k"],
                given["v"],
                given["g"],
                given["beta"],
                initial_state=None if start is None else start[:, :, : self.base.head_k_dim, : self.base.head_v_dim],
                cu_seqlens=packing.bounds,
                form=form,
            )
            given["score"] = given["beta"] * torch.linalg.vector_norm(errors, dim=-1)
        given["read_q"], given["read_k"] = self.read_q_norm(q) * self.base.head_k_dim**-0.5, self.read_k_norm(k)
        given["gate"] = self.cache_gate_proj(x).sigmoid()
        o, state = self.op(**given, initial_state=start, output_final_state=True, cu_seqlens=packing.bounds, form=form)
        if state is None:
            raise TypeError("the final state was asked for")
        parts["state"] = state
        inside = Inside(inputs=given, o=o, initial_state=start, final_state=state, cu_seqlens=packing.bounds, op=self.op)
        return Mixed(y=self.base.o_proj(self.base.finish(x, o, v).flatten(2)), parts=parts, inside=inside)
