"""Linear-time sequence layers: one recurrence, its forms (chunk, recurrent, parallel, and the definition), the ops that are made of
it, and layers around them.

    o, state = mixers.gated_delta_rule(q, k, v, g, beta, output_final_state=True)
    y = mixers.GatedDeltaNet(hidden_size=256, num_heads=4)(x, cache=mixers.MixerCache())
    model = mixers.build(mixers.StackConfig(layers=["gdn", "gdn", "gdn", "attention"], hidden_size=256, vocab_size=8192))

Tensors are ``[B, T, H, D]``, decays are logarithms of at most 0, states are ``[N, H, K, V]``. `transect.mixers.algebra` has the recurrence,
`transect.mixers.naive` runs it as it is written, and `transect.testing.check_mixer` holds every other form to it.
`transect.mixers.layers` has the feature maps of `LinearAttention`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from transect.mixers.bidirectional import bidirectional_attention
from transect.mixers.block_attention import block_attention
from transect.mixers.curvature_query import curvature_query
from transect.mixers.delta_product import delta_product
from transect.mixers.delta_rule import delta_rule
from transect.mixers.diagonal_recurrence import diagonal_recurrence
from transect.mixers.exact_cache import exact_cache_delta_rule
from transect.mixers.feed_forward import BilinearMLP, ChannelMix, GatedMLP, MixtureOfExpertsMLP
from transect.mixers.fixed_point import fixed_point_recurrence
from transect.mixers.gated_delta_rule import gated_delta_rule
from transect.mixers.gla import gla
from transect.mixers.hgrn2 import hgrn2
from transect.mixers.higher_order import higher_order_linear_attention
from transect.mixers.kda import kda
from transect.mixers.koopman import KoopmanDynamics
from transect.mixers.layers import (
    GLA,
    HGRN2,
    KDA,
    LRU,
    RWKV4,
    RWKV7,
    S4D,
    S5,
    Attention,
    BidirectionalLinearAttention,
    BilinearRNN,
    BlockDiagonalRNN,
    CurvatureQuery,
    DeltaNet,
    DeltaProductNet,
    DiagonalAttention,
    ExactCacheDeltaNet,
    FixedPointRNN,
    GatedDeltaNet,
    HigherOrderLinearAttention,
    LightNet,
    LightNetGrid,
    LightningAttention,
    LinearAttention,
    LogLinearGatedDeltaNet,
    LogLinearMamba2,
    Mamba2,
    MixerCache,
    MixtureOfMemories,
    MomentumDeltaNet,
    RetNet,
    ShortLongConvolution,
    TransNormer,
    VariationalLinearAttention,
)
from transect.mixers.light_net import additive_grid_attention, light_net
from transect.mixers.linear_attention import linear_attention
from transect.mixers.log_linear import log_linear_gated_delta_rule, log_linear_simple_gla
from transect.mixers.matrix_recurrence import matrix_recurrence
from transect.mixers.memories import mixture_of_memories
from transect.mixers.momentum import momentum_delta_rule
from transect.mixers.retention import retention
from transect.mixers.rwkv7 import rwkv7
from transect.mixers.simple_gla import simple_gla
from transect.mixers.softmax_attention import softmax_attention
from transect.mixers.ssd import ssd
from transect.mixers.variational import variational_linear_attention
from transect.mixers.wkv import wkv

if TYPE_CHECKING:
    from transect.mixers.models import StackConfig, StackForCausalLM, build, read_checkpoint

__all__ = [
    "GLA",
    "HGRN2",
    "KDA",
    "LRU",
    "RWKV4",
    "RWKV7",
    "S4D",
    "S5",
    "Attention",
    "BidirectionalLinearAttention",
    "BilinearMLP",
    "BilinearRNN",
    "BlockDiagonalRNN",
    "ChannelMix",
    "CurvatureQuery",
    "DeltaNet",
    "DeltaProductNet",
    "DiagonalAttention",
    "ExactCacheDeltaNet",
    "FixedPointRNN",
    "GatedDeltaNet",
    "GatedMLP",
    "HigherOrderLinearAttention",
    "KoopmanDynamics",
    "LightNet",
    "LightNetGrid",
    "LightningAttention",
    "LinearAttention",
    "LogLinearGatedDeltaNet",
    "LogLinearMamba2",
    "Mamba2",
    "MixerCache",
    "MixtureOfExpertsMLP",
    "MixtureOfMemories",
    "MomentumDeltaNet",
    "RetNet",
    "ShortLongConvolution",
    "StackConfig",
    "StackForCausalLM",
    "TransNormer",
    "VariationalLinearAttention",
    "additive_grid_attention",
    "bidirectional_attention",
    "block_attention",
    "build",
    "curvature_query",
    "delta_product",
    "delta_rule",
    "diagonal_recurrence",
    "exact_cache_delta_rule",
    "fixed_point_recurrence",
    "gated_delta_rule",
    "gla",
    "hgrn2",
    "higher_order_linear_attention",
    "kda",
    "light_net",
    "linear_attention",
    "log_linear_gated_delta_rule",
    "log_linear_simple_gla",
    "matrix_recurrence",
    "mixture_of_memories",
    "momentum_delta_rule",
    "read_checkpoint",
    "retention",
    "rwkv7",
    "simple_gla",
    "softmax_attention",
    "ssd",
    "variational_linear_attention",
    "wkv",
]


_LAZY = ("StackConfig", "StackForCausalLM", "build", "read_checkpoint")
"""What imports transformers, for which whoever wants an op should not wait."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module("transect.mixers.models"), name)
    raise AttributeError(f"module 'transect.mixers' has no attribute {name!r}")
