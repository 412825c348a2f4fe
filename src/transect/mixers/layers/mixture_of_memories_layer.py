"""Mixture of memories: a Gated DeltaNet with several states, and a router that sends each token to some of them.

Paper: MoM, Linear Sequence Modeling with Mixture-of-Memories, Du et al., arXiv 2502.13685.

    p = softmax(W_r x),   w = the top_k largest of p, divided by their sum,   o_t = sum_m w_m q_t^T S_t^(m) + q_t^T S_t^(shared)

All memories have the same projections of keys and values (the paper also tells them apart by projections of their own). With top_k = 1 the
weight is p itself: divided by its sum it would be 1, and the router would learn nothing.
"""

from functools import partial
from typing import final

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError
from transect.mixers.algebra import Form
from transect.mixers.layers.base import Inside, Mixed, Op, Past, SequenceLayer
from transect.mixers.layers.gated_delta_net import GatedDeltaNet
from transect.mixers.layers.packing import Packing
from transect.mixers.memories import mixture_of_memories


@final
class MixtureOfMemories(SequenceLayer):
    """Mixture of memories: a Gated DeltaNet with several states, and a router that sends each token to some of them.

    ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences. In `Inside.inputs`, `memories` says
    where each token was sent, and `shares` with what weight; the shared memory is the last one.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads.
        head_k_dim: width of a head's queries and keys; None for hidden_size / num_heads.
        head_v_dim: width of a head's values; None for head_k_dim.
        num_memories: memories that the router chooses among.
        top_k: memories that it sends each token to.
        shared_memory: whether there is one more, which every token is sent to.
        conv_size: tokens that the short convolution sees; None for no convolution.
        use_gate: whether the output is gated by the input.
        allow_neg_eigval: whether beta may reach 2, so that a key can be reflected, and parities counted.
        norm_eps: epsilon of the output norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide, or a top_k that is not from 1 to num_memories.

    Examples:
        >>> import torch
        >>> layer = MixtureOfMemories(hidden_size=16, num_heads=2)
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
        num_memories: int = 4,
        top_k: int = 2,
        shared_memory: bool = True,
        conv_size: int | None = 4,
        use_gate: bool = True,
        allow_neg_eigval: bool = False,
        norm_eps: float = 1e-5,
        layer_idx: int = 0,
    ) -> None:
        super().__init__(hidden_size=hidden_size, layer_idx=layer_idx)
        if not 1 <= top_k <= num_memories:
            raise InputError(f"expected a top_k from 1 to num_memories = {num_memories}, got {top_k}.")
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
        self.router = nn.Linear(hidden_size, num_memories, bias=False)
        self.num_memories, self.top_k, self.shared_memory = num_memories, top_k, shared_memory

    @property
    def op(self) -> Op:
        """The gated delta rule over as many memories as there are."""
        return partial(mixture_of_memories, num_memories=self.num_memories + self.shared_memory)

    def mix(self, x: torch.Tensor, *, past: Past, packing: Packing, form: Form) -> Mixed:
        """As the base does, with several states for its own."""
        q, k, v, parts = self.base.project(x, past=past, packing=packing)
        given = self.base.inputs(x, q, k, v)
        given["memories"], given["shares"] = self._routes(x)
        start = past.parts.get("state")
        o, state = self.op(**given, initial_state=start, output_final_state=True, cu_seqlens=packing.bounds, form=form)
        if state is None:
            raise TypeError("the final state was asked for")
        parts["state"] = state
        inside = Inside(inputs=given, o=o, initial_state=start, final_state=state, cu_seqlens=packing.bounds, op=self.op)
        return Mixed(y=self.base.o_proj(self.base.finish(x, o, v).flatten(2)), parts=parts, inside=inside)

    def load(self, inside: Inside) -> torch.Tensor:
        """``[num_memories]``: the part of all sent tokens that each memory was sent; the shared one aside.

        Examples:
            >>> import torch
            >>> layer = MixtureOfMemories(hidden_size=16, num_heads=2)
            >>> _, inside = layer(torch.randn(1, 9, 16), return_inside=True)
            >>> round(float(layer.load(inside).sum()), 5)
            1.0
        """
        memories = inside.inputs["memories"][..., : self.top_k]
        return memories.flatten().bincount(minlength=self.num_memories) / max(memories.numel(), 1)

    def balance_loss(self, inside: Inside) -> torch.Tensor:
        """``num_memories * sum_m load_m * (mean share of m) / (mean share of all)``: 1 where memories are used alike, more where few are used.

        Adding a little of it to a loss keeps the router from sending everything to one memory; the gradient is that of the shares.
        """
        memories, shares = (inside.inputs[name][..., : self.top_k].flatten() for name in ("memories", "shares"))
        each = torch.zeros(self.num_memories, dtype=shares.dtype, device=shares.device).index_add(0, memories, shares)
        return self.num_memories * (self.load(inside).to(shares.dtype) * each).sum() / each.detach().sum().clamp_min(1e-20)

    def _routes(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.router(x)
        shares, memories = functional.softmax(logits, -1, dtype=torch.promote_types(x.dtype, torch.float32)).topk(self.top_k, -1)
        if self.top_k > 1:
            shares = shares / shares.sum(-1, keepdim=True)
        if self.shared_memory:
            memories, shares = functional.pad(memories, (0, 1), value=self.num_memories), functional.pad(shares, (0, 1), value=1.0)
        return memories, shares
