"""Sequence layers, ``[B, T, hidden_size]`` to the same: projections, a short convolution, an op of `transect.mixers`, norm and gate."""

from transect.mixers.layers.attention import Attention
from transect.mixers.layers.base import Inside, Mixed, Past, SequenceLayer
from transect.mixers.layers.bidirectional_layer import BidirectionalLinearAttention
from transect.mixers.layers.bilinear_rnn import BilinearRNN
from transect.mixers.layers.block_diagonal_rnn import BlockDiagonalRNN
from transect.mixers.layers.cache import LayerState, MixerCache
from transect.mixers.layers.curvature_query_layer import CurvatureQuery
from transect.mixers.layers.delta_net import DeltaNet
from transect.mixers.layers.delta_product_net import DeltaProductNet
from transect.mixers.layers.exact_cache_delta_net import ExactCacheDeltaNet
from transect.mixers.layers.feature_maps import Dpfp, Elu, FeatureMap, Hedgehog, Identity, Relu, Taylor
from transect.mixers.layers.fixed_point_rnn import FixedPointRNN
from transect.mixers.layers.gated_delta_net import GatedDeltaNet
from transect.mixers.layers.gated_linear_attention import GLA
from transect.mixers.layers.hgrn2_layer import HGRN2
from transect.mixers.layers.higher_order_layer import HigherOrderLinearAttention
from transect.mixers.layers.kimi_delta_attention import KDA
from transect.mixers.layers.light_net_layer import LightNet, LightNetGrid
from transect.mixers.layers.lightning_attention import LightningAttention
from transect.mixers.layers.linear_attention_layer import LinearAttention
from transect.mixers.layers.log_linear_layers import LogLinearGatedDeltaNet, LogLinearLayer, LogLinearMamba2
from transect.mixers.layers.mamba2 import Mamba2
from transect.mixers.layers.matrix_rnn import MatrixRNN
from transect.mixers.layers.mixture_of_memories_layer import MixtureOfMemories
from transect.mixers.layers.momentum_delta_net import MomentumDeltaNet
from transect.mixers.layers.projected import ProjectedLayer
from transect.mixers.layers.reflections import Reflections
from transect.mixers.layers.retnet import RetNet
from transect.mixers.layers.rwkv4_layer import RWKV4
from transect.mixers.layers.rwkv7_layer import RWKV7
from transect.mixers.layers.short_long_convolution import ShortLongConvolution
from transect.mixers.layers.state_space import LRU, S4D, S5
from transect.mixers.layers.transnormer import DiagonalAttention, TransNormer
from transect.mixers.layers.variational_layer import VariationalLinearAttention

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
    "BilinearRNN",
    "BlockDiagonalRNN",
    "CurvatureQuery",
    "DeltaNet",
    "DeltaProductNet",
    "DiagonalAttention",
    "Dpfp",
    "Elu",
    "ExactCacheDeltaNet",
    "FeatureMap",
    "FixedPointRNN",
    "GatedDeltaNet",
    "Hedgehog",
    "HigherOrderLinearAttention",
    "Identity",
    "Inside",
    "LayerState",
    "LightNet",
    "LightNetGrid",
    "LightningAttention",
    "LinearAttention",
    "LogLinearGatedDeltaNet",
    "LogLinearLayer",
    "LogLinearMamba2",
    "Mamba2",
    "MatrixRNN",
    "Mixed",
    "MixerCache",
    "MixtureOfMemories",
    "MomentumDeltaNet",
    "Past",
    "ProjectedLayer",
    "Reflections",
    "Relu",
    "RetNet",
    "SequenceLayer",
    "ShortLongConvolution",
    "Taylor",
    "TransNormer",
    "VariationalLinearAttention",
]
