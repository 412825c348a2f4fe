"""Linear attention through a feature map.

Papers: Transformers are RNNs, Katharopoulos et al., arXiv 2006.16236; Linear Transformers Are Secretly Fast Weight Programmers, arXiv 2102.11174.

    o_t = sum_j v_j phi(k_j)^T phi(q_t) / sum_j phi(k_j)^T phi(q_t),   j = 1 ... t
"""

import copy
from typing import Any, final

import torch

from transect.errors import InputError
from transect.mixers.layers.base import Op
from transect.mixers.layers.feature_maps import Elu, FeatureMap
from transect.mixers.layers.projected import ProjectedLayer
from transect.mixers.linear_attention import linear_attention


def normalized_linear_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **settings: Any
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Linear attention divided by the sum of its weights; the last column of the state ``[N, H, K, V + 1]`` holds the sum of the keys.

    Args:
        q: features ``[B, T, H, K]``, never negative in product with those of k.
        k: features ``[B, T, H, K]``.
        v: values ``[B, T, H, V]``.
        settings: as in `transect.mixers.linear_attention`.

    Examples:
        >>> one = torch.ones(1, 3, 1, 1)
        >>> normalized_linear_attention(one, one, one)[0].flatten()
        tensor([1., 1., 1.])
    """
    wide = v.to(torch.promote_types(v.dtype, torch.float32))
    o, state = linear_attention(q, k, torch.cat([wide, torch.ones_like(wide[..., :1])], -1), scale=1.0, **settings)
    return (o[..., :-1] / (o[..., -1:] + 1e-12)).to(v.dtype), state


@final
class LinearAttention(ProjectedLayer):
    """Linear attention through a feature map.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        conv_size: tokens that the short convolution sees; None for no convolution.
        use_gate: whether the output is gated by the input.
        feature_map: what queries and keys go through, each through its own copy; None for elu(x) + 1.
        normalize: whether weights are divided by their sum; None for whether the map is positive.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide, or a map that cannot be normalised.

    Examples:
        >>> import torch
        >>> layer = LinearAttention(hidden_size=16, num_heads=2)
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
        conv_size: int | None = None,
        use_gate: bool = False,
        feature_map: FeatureMap | None = None,
        normalize: bool | None = None,
        norm_eps: float = 1e-5,
        layer_idx: int = 0,
    ) -> None:
        super().__init__(
            hidden_size=hidden_size,
            num_heads=num_heads,
            head_k_dim=head_k_dim,
            head_v_dim=head_v_dim,
            keys_per_token=1,
            conv_size=conv_size,
            use_gate=use_gate,
            norm_eps=norm_eps,
            layer_idx=layer_idx,
        )
        feature_map = Elu() if feature_map is None else feature_map
        if normalize and not feature_map.positive:
            raise InputError(
                f"expected a feature map whose products are never negative for normalize=True, got {type(feature_map).__name__}."
                " Use another map, or normalize=False."
            )
        self.q_map, self.k_map = copy.deepcopy(feature_map), copy.deepcopy(feature_map)
        self.normalize = feature_map.positive if normalize is None else normalize

    @property
    def op(self) -> Op:
        """Linear attention, normalised or not."""
        return normalized_linear_attention if self.normalize else linear_attention

    def inputs(
        self,
        x: torch.Tensor,  # noqa: ARG002 - nothing here depends on the input but q, k and v
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Features of queries and keys, and values."""
        return {"q": self.q_map(q), "k": self.k_map(k), "v": v}
