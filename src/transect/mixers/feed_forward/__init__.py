"""What stands between sequence layers in a stack: most work on each token by itself; `ChannelMix` also remembers the token before."""

from transect.mixers.feed_forward.base import FeedForward
from transect.mixers.feed_forward.bilinear_mlp import BilinearMLP, Interaction
from transect.mixers.feed_forward.channel_mix import ChannelMix
from transect.mixers.feed_forward.gated_mlp import GatedMLP
from transect.mixers.feed_forward.mixture_of_experts import MixtureOfExpertsMLP, Routed

__all__ = ["BilinearMLP", "ChannelMix", "FeedForward", "GatedMLP", "Interaction", "MixtureOfExpertsMLP", "Routed"]
