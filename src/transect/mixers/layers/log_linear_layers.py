"""Log-linear Mamba-2 and log-linear Gated DeltaNet: the layers of those names with a state for each power of two of the past.

Paper: Log-Linear Attention, Guo, Yang, Goel, Xing, Dao and Kim, arXiv 2506.04761.

    lambda_t = softplus(W_l x + b),   o_t = sum_l lambda_t^(l) q_t^T S_t^(l)

b is such that lambda is 1 where W_l x is 0: the layer starts near the one that it is made of.
"""

import math
from abc import ABC, abstractmethod
from functools import partial
from typing import final

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.algebra import Form
from transect.mixers.layers.base import Inside, Mixed, Op, Past, SequenceLayer
from transect.mixers.layers.gated_delta_net import GatedDeltaNet
from transect.mixers.layers.mamba2 import Mamba2
from transect.mixers.layers.packing import Packing
from transect.mixers.layers.projected import ProjectedLayer
from transect.mixers.log_linear import log_linear_gated_delta_rule, log_linear_simple_gla


class LogLinearLayer(SequenceLayer, ABC):
    """A layer of queries, keys and values with a state for each power of two of the past.

    Args:
        base: the layer whose projections, gates and output it has.
        max_levels: texts may have up to ``2 ** max_levels`` tokens; there are max_levels + 1 levels.

    Raises:
        InputError: max_levels below 0 or above 40.
    """

    def __init__(self, *, base: ProjectedLayer, max_levels: int) -> None:
        super().__init__(hidden_size=base.hidden_size, layer_idx=base.layer_idx)
        if not 0 <= max_levels <= 40:
            raise InputError(f"expected max_levels from 0 to 40 (20 for a million tokens), got {max_levels}.")
        self.base = base
        self.level_proj = nn.Linear(base.hidden_size, base.num_heads * (max_levels + 1))
        nn.init.constant_(self.level_proj.bias, math.log(math.e - 1))

    @property
    @abstractmethod
    def op(self) -> Op:
        """The op of `transect.mixers.log_linear` that mixes the tokens."""

    @final
    def mix(self, x: torch.Tensor, *, past: Past, packing: Packing, form: Form) -> Mixed:
        """As the base does, with weighted levels for its state.

        Raises:
            InputError: a text longer than ``2 ** max_levels`` tokens.
        """
        q, k, v, parts = self.base.project(x, past=past, packing=packing)
        given = self.base.inputs(x, q, k, v)
        given["level_weights"] = functional.softplus(self.level_proj(x)).unflatten(2, (self.base.num_heads, -1))
        given["positions"] = packing.positions(past.seen).expand(x.shape[:2])
        start = past.parts.get("state")
        o, state = self.op(**given, initial_state=start, output_final_state=True, cu_seqlens=packing.bounds, form=form)
        if state is None:
            raise TypeError("the final state was asked for")
        parts["state"] = state
        inside = Inside(inputs=given, o=o, initial_state=start, final_state=state, cu_seqlens=packing.bounds, op=self.op)
        return Mixed(y=self.base.o_proj(self.base.finish(x, o, v).flatten(2)), parts=parts, inside=inside)


@final
class LogLinearMamba2(LogLinearLayer):
    """Log-linear Mamba-2: `Mamba2` with a state for each power of two of the past.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of C and B, the paper's N.
        head_v_dim: width of a head of x, the paper's P; None for 2 hidden_size / num_heads.
        n_groups: heads of C and B, and groups of the norm; they divide num_heads.
        conv_size: tokens that the short convolution sees; None for no convolution.
        conv_bias: whether it has a bias.
        use_gate: whether the output is gated by the input.
        max_levels: texts may have up to ``2 ** max_levels`` tokens; a longer one is refused.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide, or max_levels below 0 or above 40.

    Examples:
        >>> import torch
        >>> layer = LogLinearMamba2(hidden_size=16, num_heads=2)
        >>> layer(torch.ones(1, 3, 16)).shape
        torch.Size([1, 3, 16])
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int,
        head_k_dim: int = 128,
        head_v_dim: int | None = None,
        n_groups: int = 1,
        conv_size: int | None = 4,
        conv_bias: bool = True,
        use_gate: bool = True,
        max_levels: int = 16,
        norm_eps: float = 1e-5,
        layer_idx: int = 0,
    ) -> None:
        base = Mamba2(
            hidden_size=hidden_size,
            num_heads=num_heads,
            head_k_dim=head_k_dim,
            head_v_dim=head_v_dim,
            n_groups=n_groups,
            conv_size=conv_size,
            conv_bias=conv_bias,
            use_gate=use_gate,
            norm_eps=norm_eps,
            layer_idx=layer_idx,
        )
        super().__init__(base=base, max_levels=max_levels)

    @property
    def op(self) -> Op:
        """Log-linear attention with one decay per head, read without a scale."""
        return partial(log_linear_simple_gla, scale=1.0)


@final
class LogLinearGatedDeltaNet(LogLinearLayer):
    """Log-linear Gated DeltaNet: `GatedDeltaNet` with a state for each power of two of the past.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        conv_size: tokens that the short convolution sees; None for no convolution.
        use_gate: whether the output is gated by the input.
        allow_neg_eigval: whether beta may reach 2, so that a key can be reflected, and parities counted.
        max_levels: texts may have up to ``2 ** max_levels`` tokens; a longer one is refused.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide, or max_levels below 0 or above 40.

    Examples:
        >>> import torch
        >>> layer = LogLinearGatedDeltaNet(hidden_size=16, num_heads=2)
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
        conv_size: int | None = 4,
        use_gate: bool = True,
        allow_neg_eigval: bool = False,
        max_levels: int = 16,
        norm_eps: float = 1e-5,
        layer_idx: int = 0,
    ) -> None:
        base = GatedDeltaNet(
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
        super().__init__(base=base, max_levels=max_levels)

    @property
    def op(self) -> Op:
        """Log-linear attention over the gated delta rule."""
        return log_linear_gated_delta_rule
