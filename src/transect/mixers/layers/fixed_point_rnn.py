"""A dense RNN found by a few sweeps of a diagonal one: more sweeps mix channels further, with the same parameters.

Paper: Fixed-Point RNNs: Interpolating from Diagonal to Dense, Movahedi, Sarnthein, Muca Cirone and Orvieto, arXiv 2503.10799.

    h^l_t = a_t h^l_{t-1} + (1 - a_t) (h^{l-1}_t + Q_t (b_t x_t - h^{l-1}_t))       a_t = sigmoid(W_a u_t), b_t = silu(W_b u_t), by channel
    Q_t = (I - s_r k_r k_r^T) ... (I - s_1 k_1 k_1^T)  or  I - s_1 k_1 k_1^T - ... - s_r k_r k_r^T          k of norm 1, s in (0, 2)
    y_t = W_o (norm(silu(c_t) h^L_t) )

k and s are made from the token and, with `looks_back`, from the state one token before, as the sweep before left it. Without that the layer is linear in
its state, and where sweeps settle its transitions have eigenvalues of positive real part: no signs or rotations that last, and so no state tracking over
long texts. With it the recurrence is not linear. The gate c of the authors' code also sees the state before; here it sees the token.
"""

from typing import Literal, final, get_args

import torch
from torch import nn
from torch.nn import functional

from transect.errors import InputError, near_matches
from transect.mixers.algebra import Form
from transect.mixers.fixed_point import fixed_point_sweeps
from transect.mixers.layers.base import Inside, Mixed, Past, SequenceLayer, unit
from transect.mixers.layers.packing import Packing

Mixer = Literal["householder", "low_rank"]


@final
class FixedPointRNN(SequenceLayer):
    """A fixed-point RNN. ``[B, T, hidden_size]`` to the same; see `SequenceLayer.forward` for caches, masks and packed sequences.

    Args:
        hidden_size: the width of inputs and outputs.
        num_heads: heads of the state; channels are mixed within each. The paper has one.
        head_dim: numbers in each; None for hidden_size / num_heads.
        iterations: sweeps, each over all tokens at once; the state is `iterations` vectors for each head.
        mixer: "householder" (products) or "low_rank" (sums); the same with a rank of 1.
        rank: vectors k of each token and head.
        looks_back: whether k and s depend on the state one token before.
        contraction: a bound below 1 on the norm of ``I - Q``, by strengths s that sum to at most this, so that sweeps settle; None for s in (0, 2) as in the
            authors' code, which does not bound it below 1.
        norm_eps: added to mean squares in the norm.
        layer_idx: this layer's place in a cache.

    Raises:
        InputError: sizes that are not positive or do not divide, a mixer that does not exist, or a contraction outside (0, 1).

    Examples:
        >>> layer = FixedPointRNN(hidden_size=8, num_heads=2, iterations=3)
        >>> layer(torch.ones(1, 3, 8)).shape
        torch.Size([1, 3, 8])
    """

    alias = "fprnn"

    def __init__(
        self,
        *,
        hidden_size: int,
        num_heads: int = 1,
        head_dim: int | None = None,
        iterations: int = 4,
        mixer: Mixer = "householder",
        rank: int = 1,
        looks_back: bool = True,
        contraction: float | None = None,
        norm_eps: float = 1e-5,
        layer_idx: int = 0,
    ) -> None:
        super().__init__(hidden_size=hidden_size, layer_idx=layer_idx)
        if num_heads < 1 or (head_dim is None and hidden_size % num_heads) or (head_dim is not None and head_dim < 1):
            raise InputError(f"expected num_heads that divide hidden_size, or a head_dim, got {num_heads}, {hidden_size} and {head_dim}.")
        if iterations < 1 or rank < 1:
            raise InputError(f"expected iterations and a rank of at least 1, got {iterations} and {rank}.")
        if mixer not in get_args(Mixer):
            raise InputError(f"expected a mixer that exists, got {mixer!r}; {near_matches(str(mixer), get_args(Mixer))}.")
        if contraction is not None and not 0 < contraction < 1:
            raise InputError(f"expected a contraction between 0 and 1, or None, got {contraction}.")
        self.num_heads, self.head_dim, self.rank = num_heads, head_dim or hidden_size // num_heads, rank
        self.iterations, self.mixer, self.contraction, self.norm_eps = iterations, mixer, contraction, norm_eps
        width, made = num_heads * self.head_dim, num_heads * rank * (self.head_dim + 1)
        self.in_proj = nn.Linear(hidden_size, 4 * width)  # x, b, decays and the gate
        self.mixer_proj = nn.Linear(hidden_size, made)
        self.back_proj = nn.Linear(width, made, bias=False) if looks_back else None
        self.norm = nn.RMSNorm(width, eps=norm_eps)
        self.o_proj = nn.Linear(width, hidden_size, bias=False)

    def mix(self, x: torch.Tensor, *, past: Past, packing: Packing, form: Form) -> Mixed:
        """Sweep as often as is set, and read the last iterate."""
        value, b, decay, gate = (part.unflatten(2, (self.num_heads, -1)) for part in self.in_proj(x).chunk(4, -1))
        wide = torch.promote_types(x.dtype, torch.float32)
        given, g = (functional.silu(b) * value).to(wide), functional.logsigmoid(decay.to(wide))
        made = self.mixer_proj(x).to(wide)

        def mixed(v: torch.Tensor, before: torch.Tensor, span: slice) -> torch.Tensor:
            raw = made[:, span]
            if self.back_proj is not None:
                raw = raw + functional.linear(before.flatten(2), self.back_proj.weight.to(wide))
            raw = raw.unflatten(2, (self.num_heads, self.rank, self.head_dim + 1))
            return self._mixed(unit(raw[..., 1:]), self._strengths(raw[..., 0]), v)

        start = past.parts.get("state")
        h, state = fixed_point_sweeps(
            g, given, mixed, iterations=self.iterations, initial_state=start, cu_seqlens=packing.bounds, form=form
        )
        read = (functional.silu(gate) * h.to(x.dtype)).flatten(2)
        inside = Inside(inputs={"v": given, "g": g}, o=h, initial_state=start, final_state=state, cu_seqlens=packing.bounds, op=None)
        return Mixed(y=self.o_proj(self.norm(read)), parts={"state": state}, inside=inside)

    def _strengths(self, raw: torch.Tensor) -> torch.Tensor:
        """The most that ``|I - Q|`` can be is their sum, for products as for sums."""
        return raw.sigmoid() * (2 if self.contraction is None else self.contraction / self.rank)

    def _mixed(self, k: torch.Tensor, s: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """``Q v``, of keys ``[B, t, H, r, D]``, strengths ``[B, t, H, r]`` and ``v [B, t, H, D]``."""
        if self.mixer == "low_rank":
            return v - ((s * (k * v[..., None, :]).sum(-1))[..., None] * k).sum(-2)
        for key, strength in zip(k.unbind(3), s.unbind(3), strict=True):
            v = v - (strength * (key * v).sum(-1))[..., None] * key
        return v
