"""A causal convolution over the last few tokens, channel by channel, that goes on where an earlier call stopped.

    y_t = silu(sum_j w_j x_{t - j} + b)

It is a sum of shifted copies, so a token's output has the same bits however a text is cut, and packed sequences stay apart.
"""

from itertools import pairwise
from typing import final

import torch
from torch import nn
from torch.nn import functional


@final
class ShortConvolution(nn.Module):
    """A causal depthwise convolution followed by silu.

    Args:
        channels: the width of its input.
        conv_size: tokens that it sees, its own among them.
        bias: whether b is there.

    Examples:
        >>> convolution = ShortConvolution(channels=2, conv_size=4)
        >>> y, last = convolution(torch.ones(1, 5, 2))
        >>> y.shape, last.shape
        (torch.Size([1, 5, 2]), torch.Size([1, 3, 2]))
    """

    def __init__(self, *, channels: int, conv_size: int = 4, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(conv_size, channels).uniform_(-(conv_size**-0.5), conv_size**-0.5))
        self.bias = nn.Parameter(torch.zeros(channels)) if bias else None

    def forward(
        self, x: torch.Tensor, *, last: torch.Tensor | None = None, bounds: tuple[int, ...] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs ``[B, T, D]``, and the last inputs ``[N, conv_size - 1, D]`` from which the next call goes on.

        Args:
            x: ``[B, T, D]``.
            last: what the call before gave back, or None.
            bounds: where sequences packed into a batch of 1 begin, and T.
        """
        size = len(self.weight)
        pieces = x if bounds is None else x[0].split([end - start for start, end in pairwise(bounds)])
        if last is None:
            last = x.new_zeros(len(pieces), size - 1, x.shape[2])
        if bounds is None:
            before = torch.cat([last, x], 1)
            return self._taps(before), before[:, before.shape[1] - size + 1 :]
        joined = [torch.cat([head, piece]) for head, piece in zip(last, pieces, strict=True)]
        whole = self._taps(torch.cat(joined)[None])[0]
        places, start = [], 0
        for piece in pieces:
            places.append(torch.arange(start, start + len(piece), device=x.device))
            start += len(piece) + size - 1
        return whole[torch.cat(places)][None], torch.stack([part[len(part) - size + 1 :] for part in joined])

    def _taps(self, before: torch.Tensor) -> torch.Tensor:
        size = len(self.weight)
        tokens = before.shape[1] - size + 1
        copies = (
            [before[:, j : j + tokens] for j in range(size)] if tokens != 1 else before.split(1, 1)
        )  # a decoding step pays for every call
        first, *others = zip(copies, self.weight.unbind(), strict=True)
        out = first[0] * first[1]
        for copy, weight in others:
            out = torch.addcmul(out, copy, weight)
        return functional.silu(out if self.bias is None else out + self.bias)
