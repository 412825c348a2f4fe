"""A mixture of experts: each token goes through a few of many gated MLPs.

Papers: Outrageously Large Neural Networks, Shazeer et al., arXiv 1701.06538; the loss that balances the load is that of Switch
Transformers, Fedus et al., arXiv 2101.03961. With linear-time layers: Linear-MoE, Sun et al., arXiv 2503.05447.

    p = softmax(W_r x);   y = sum_{e in the top k of p} p_e / sum p  *  MLP_e(x)  +  sigmoid(w_s x) MLP_shared(x)

Tokens are sorted by expert, so that each expert works once on all of its tokens, and none is ever dropped.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.feed_forward.base import FeedForward
from transect.mixers.feed_forward.gated_mlp import GatedMLP


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Routed:
    """Where tokens went.

    Args:
        experts: ``[..., k]``, the experts of each token, the likeliest first.
        weights: ``[..., k]``, how much each counts.
        load: ``[num_experts]``, the share of all choices that went to each expert.
        balance: the loss that is 1 where the load is even, and up to num_experts where it is not; differentiable.
    """

    experts: torch.Tensor
    weights: torch.Tensor
    load: torch.Tensor
    balance: torch.Tensor


@final
class MixtureOfExpertsMLP(FeedForward):
    """A mixture of experts, ``[..., hidden_size]`` to the same.

    Args:
        hidden_size: the width of inputs and outputs.
        intermediate_size: the width inside each expert.
        num_experts: how many there are.
        experts_per_token: how many a token goes through.
        shared_intermediate_size: the width inside an expert for every token, with a gate of its own; None for no such expert.
        normalize: whether the weights of a token's experts are divided by their sum.

    Raises:
        InputError: sizes below 1, or more experts per token than there are.

    Examples:
        >>> layer = MixtureOfExpertsMLP(hidden_size=4, intermediate_size=8, num_experts=4, experts_per_token=2)
        >>> layer(torch.ones(2, 3, 4)).shape, layer.route(torch.ones(2, 3, 4)).experts.shape
        (torch.Size([2, 3, 4]), torch.Size([2, 3, 2]))
    """

    alias = "moe"

    def __init__(
        self,
        *,
        hidden_size: int,
        intermediate_size: int,
        num_experts: int = 8,
        experts_per_token: int = 2,
        shared_intermediate_size: int | None = None,
        normalize: bool = True,
    ) -> None:
        super().__init__()
        if min(hidden_size, intermediate_size, num_experts) < 1 or not 1 <= experts_per_token <= num_experts:
            raise InputError(
                f"expected sizes of at least 1 and 1 to num_experts = {num_experts} experts per token, got hidden_size {hidden_size},"
                f" intermediate_size {intermediate_size} and {experts_per_token}."
            )
        self.experts_per_token, self.normalize = experts_per_token, normalize
        self.router = nn.Linear(hidden_size, num_experts, bias=False)
        bound = hidden_size**-0.5, intermediate_size**-0.5
        self.gate_up_proj = nn.Parameter(torch.empty(num_experts, 2 * intermediate_size, hidden_size).uniform_(-bound[0], bound[0]))
        self.down_proj = nn.Parameter(torch.empty(num_experts, hidden_size, intermediate_size).uniform_(-bound[1], bound[1]))
        self.shared_gate, self.shared_expert = None, None
        if shared_intermediate_size is not None:
            self.shared_gate = nn.Linear(hidden_size, 1, bias=False)
            self.shared_expert = GatedMLP(hidden_size=hidden_size, intermediate_size=shared_intermediate_size)

    def route(self, x: torch.Tensor) -> Routed:
        """Where tokens ``[..., hidden_size]`` go, and how evenly."""
        chances = self.router(x).softmax(-1, dtype=torch.promote_types(x.dtype, torch.float32))
        weights, experts = chances.topk(self.experts_per_token, dim=-1)
        if self.normalize:
            weights = weights / weights.sum(-1, keepdim=True)
        count = chances.shape[-1]
        load = experts.flatten().bincount(minlength=count).to(chances.dtype) / max(experts.numel(), 1)
        balance = count * (load * chances.reshape(-1, count).sum(0)).sum() / max(chances.numel() // count, 1)
        return Routed(experts=experts, weights=weights.to(x.dtype), load=load, balance=balance)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[..., hidden_size]`` to the same."""
        tokens = x.reshape(-1, x.shape[-1])
        routed = self.route(tokens)
        order = routed.experts.flatten().argsort(stable=True)
        places = order // self.experts_per_token
        counts = routed.experts.flatten().bincount(minlength=len(self.down_proj)).tolist()
        found = []
        for expert, rows in enumerate(tokens[places].split(counts)):
            if len(rows):
                gate, up = functional.linear(rows, self.gate_up_proj[expert]).chunk(2, -1)
                found.append(functional.linear(functional.silu(gate) * up, self.down_proj[expert]))
        y = torch.zeros_like(tokens)
        if found:
            y = y.index_add(0, places, torch.cat(found) * routed.weights.flatten()[order, None])
        if self.shared_gate is not None and self.shared_expert is not None:
            y = y + self.shared_gate(tokens).sigmoid() * self.shared_expert(tokens)
        return y.view_as(x)
