"""What stands between sequence layers in a stack and works on each token by itself: ``[..., hidden_size]`` to the same."""

from transect.mixers.feed_forward.base import FeedForward
from transect.mixers.feed_forward.bilinear_mlp import BilinearMLP, Interaction
from transect.mixers.feed_forward.gated_mlp import GatedMLP
from transect.mixers.feed_forward.mixture_of_experts import MixtureOfExpertsMLP, Routed

__all__ = ["BilinearMLP", "FeedForward", "GatedMLP", "Interaction", "MixtureOfExpertsMLP", "Routed"]
