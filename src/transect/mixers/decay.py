"""Products of decays inside a chunk, exact through hard resets, with their gradients by hand.

A chunk needs three products of ``a_t = exp(g_t)``: from its start to each row (``start``), from each row to its end (``end``), and between
any two rows, ``Gamma_ij = a_{j+1} ... a_i``. Cumulative sums of g and differences of them lose digits after a strong decay (1e4 - 1e4)
and are NaN after g = -inf. Here nothing is ever subtracted or divided.

One decay per head: Gamma is built row by row, ``Gamma_i = a_i Gamma_{i-1}``. One per channel c: products are built by doubling. Two
neighbouring blocks of s rows make one of 2 s: rows of the second times the whole first, rows of the first times the whole second, and
the pairs between them are

    Gamma_ijc = pre_ic suf_jc       i in the second block, j in the first; both factors are at most 1

so the matrix of pairs ``sum_c x_ic Gamma_ijc w_jc`` is one matrix product per block. Gradients with respect to g go back the same ways,
as sums without differences, so those of a closed gate are exactly zero. A row never sees a later one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch

Logs = list[tuple[torch.Tensor, torch.Tensor | None]]
Pairs = tuple[torch.Tensor, torch.Tensor, Logs]


@final
@dataclass(frozen=True, eq=False)
class ScalarDecay:
    """The decays of chunks ``[m, C]``, all channels of a head alike.

    Args:
        gamma: ``[m, C, C]``, products between rows; 0 above the diagonal.
        start: ``[m, C, 1]``, products from the start of the chunk to each row, with the row's own decay.
        end: ``[m, C, 1]``, products of what follows the row to the end of the chunk.
    """

    gamma: torch.Tensor
    start: torch.Tensor
    end: torch.Tensor

    @classmethod
    def of(cls, g: torch.Tensor) -> "ScalarDecay":
        """The products of log decays ``[m, C, 1]``."""
        m, size, _ = g.shape
        gate = g.exp()
        gamma = g.new_zeros(m, size, size)
        gamma.diagonal(dim1=1, dim2=2).fill_(1)
        rows, gates = gamma.unbind(1), gate.unbind(1)
        for i in range(1, size):
            torch.mul(rows[i - 1][:, :i], gates[i], out=rows[i][:, :i])
        return cls(gamma, gamma[:, :, :1] * gate[:, :1], gamma[:, -1, :, None])

    @classmethod
    def paired(cls, g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> tuple["ScalarDecay", torch.Tensor]:
        """What `of` and `pairs` give."""
        made = cls.of(g)
        return made, made.pairs(x, w)

    def pairs(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """``[m, C, r, C]``: for ``x [m, C, r, K]`` and ``w [m, C, K]``, ``x_i Gamma_ij w_j``; 0 for j after i."""
        m, size, r, _ = x.shape
        return torch.bmm(x.flatten(1, 2), w.mT).view(m, size, r, size).mul_(self.gamma[:, :, None])

    def pairs_backward(self, dout: torch.Tensor, out: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Pairs:
        """Gradients of `pairs` (where `dout` is 0 for j after i): of x, of w, and of the logs of gamma."""
        m, size, r, _ = x.shape
        logs = (dout * out).sum(2)
        inner = (dout * self.gamma[:, :, None]).view(m, size * r, size)
        return torch.bmm(inner, w).view_as(x), torch.bmm(inner.mT, x.flatten(1, 2)), [(logs, logs)]

    def backward(self, dstart: torch.Tensor, dend: torch.Tensor, logs: Logs) -> torch.Tensor:
        """The gradient of g ``[m, C, 1]`` from those of the logs of `start`, of `end` (``[m, C, K]``) and of gamma."""
        since = torch.ones(dstart.shape[1], dstart.shape[1], dtype=dstart.dtype, device=dstart.device).tril()  # i, t: t is not after i
        before = since.mT - torch.eye(len(since), dtype=since.dtype, device=since.device)  # j, t: j is before t
        between = ((logs[0][0] @ before) * since).sum(1)
        return (between + dstart.sum(2) @ since + dend.sum(2) @ before)[..., None]


@final
@dataclass(frozen=True, eq=False)
class ChannelDecay:
    """The decays of chunks ``[m, C, K]``, each channel its own; C is a power of two.

    Args:
        rows: for pairs of blocks of 1, 2, 4, ... C / 2 rows, products from the start of the second block to each of its rows, with the
            row's own decay, ``[m, pairs, block, K]``.
        columns: products of what follows each row of the first block to the block's end, of the same shape; of blocks of 2 rows and more, since
            nothing follows a single one.
        start: ``[m, C, K]``, products from the start of the chunk to each row.
        end: ``[m, C, K]``, products of what follows the row to the end of the chunk.
    """

    rows: list[torch.Tensor]
    columns: list[torch.Tensor]
    start: torch.Tensor
    end: torch.Tensor

    @classmethod
    def of(cls, g: torch.Tensor) -> "ChannelDecay":
        """The products of log decays ``[m, C, K]``."""
        pre, suf = g.exp(), torch.ones_like(g)
        rows, columns = [], []
        for half, second, first in _doubled(pre, suf):
            rows.append(second.clone())
            if half > 1:
                columns.append(first.clone())
        return cls(rows, columns, pre, suf)

    @classmethod
    def paired(cls, g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> tuple["ChannelDecay", torch.Tensor]:
        """What `of` and `pairs` give, but for the rows and columns, which only gradients need: nothing of them is kept."""
        pre, suf, out = g.exp(), torch.ones_like(g), _own(x, w)
        for half, second, first in _doubled(pre, suf):
            rows, columns = _halves(x, half)[:, :, 1] * second[:, :, :, None], _halves(w, half)[:, :, 0]
            _put(out, rows, columns * first if half > 1 else columns)
        return cls([], [], pre, suf), out

    def pairs(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """``[m, C, r, C]``: for ``x [m, C, r, K]`` and ``w [m, C, K]``, sums over channels of ``x_i Gamma_ij w_j``; 0 for j after i."""
        out = _own(x, w)
        for level in range(len(self.rows)):
            _put(out, *self._level(x, w, level))
        return out

    def pairs_backward(
        self,
        dout: torch.Tensor,
        out: torch.Tensor,  # noqa: ARG002 - what the scalar kind needs
        x: torch.Tensor,
        w: torch.Tensor,
    ) -> Pairs:
        """Gradients of `pairs`: of x, of w, and by level of the logs of the rows' and columns' factors (in `dout`, no j after i)."""
        _, _, r, width = x.shape
        logs = []
        own = dout.diagonal(dim1=1, dim2=3).mT[..., None]
        dx, dw = own * w[:, :, None], (own * x).sum(2)
        for level in range(len(self.rows)):
            half = 2**level
            rows, columns = self._level(x, w, level)
            inner = _blocks(dout, half).permute(0, 4, 1, 2, 3).reshape(-1, half * r, half)
            drows = torch.bmm(inner, columns.view(-1, half, width)).view_as(rows)
            dcolumns = torch.bmm(inner.mT, rows.view(-1, half * r, width)).view_as(columns)
            _halves(dx, half)[:, :, 1].addcmul_(drows, self.rows[level][:, :, :, None])
            if level == 0:
                logs.append(((drows * rows).sum(3), None))
                _halves(dw, half)[:, :, 0].add_(dcolumns)
            else:
                logs.append(((drows * rows).sum(3), dcolumns * columns))
                _halves(dw, half)[:, :, 0].addcmul_(dcolumns, self.columns[level - 1])
        return dx, dw, logs

    def backward(self, dstart: torch.Tensor, dend: torch.Tensor, logs: Logs) -> torch.Tensor:
        """The gradient of g ``[m, C, K]`` from those of the logs of `start`, `end` (both overwritten) and of the pairs' factors."""
        for level in reversed(range(len(self.rows))):
            before, after = _halves(dstart, 2**level), _halves(dend, 2**level)
            whole_first, whole_second = before[:, :, 1].sum(2), after[:, :, 0].sum(2)
            before[:, :, 0, -1] += whole_first
            before[:, :, 1, -1] += whole_second
            rows, columns = logs[level]
            before[:, :, 1] += rows.reshape_as(before[:, :, 1])
            if columns is not None:
                after[:, :, 0] += columns.reshape_as(after[:, :, 0])
        return dstart

    def _level(self, x: torch.Tensor, w: torch.Tensor, level: int) -> tuple[torch.Tensor, torch.Tensor]:
        half = 2**level
        rows, first = _halves(x, half)[:, :, 1] * self.rows[level][:, :, :, None], _halves(w, half)[:, :, 0]
        return rows, first * self.columns[level - 1] if level else first


def _doubled(pre: torch.Tensor, suf: torch.Tensor) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Blocks of 1, 2, 4, ... rows: their length, and for each pair of them products from the start of the second, and to the end of the first, as views.

    Args:
        pre: ``[m, C, K]``, the decays of the rows; what comes of them is products from the start of the chunk.
        suf: ``[m, C, K]``, ones; what comes of them is products to the end of the chunk. Both are overwritten on the way from length to length.
    """
    half = 1
    while half < pre.shape[1]:
        before, after = _halves(pre, half), _halves(suf, half)
        yield half, before[:, :, 1], after[:, :, 0]
        after[:, :, 0].mul_(before[:, :, 1, -1:])
        before[:, :, 1].mul_(before[:, :, 0, -1:])
        half *= 2


def _own(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """``[m, C, r, C]``, only ``x_i w_i`` yet."""
    m, size, r, _ = x.shape
    out = x.new_zeros(m, size, r, size)
    out.diagonal(dim1=1, dim2=3).copy_(torch.matmul(x, w[..., None])[..., 0].mT)
    return out


def _put(out: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> None:
    """Products of rows ``[m, pairs, half, r, K]`` and columns ``[m, pairs, half, K]``, where they belong in ``out [m, C, r, C]``."""
    m, _, half, r, width = rows.shape
    found = torch.bmm(rows.view(-1, half * r, width), columns.view(-1, half, width).mT)
    _blocks(out, half).copy_(found.view(m, -1, half, r, half).permute(0, 2, 3, 4, 1))


def _halves(x: torch.Tensor, half: int) -> torch.Tensor:
    """``[m, C, ...]`` as ``[m, pairs of blocks, 2, half, ...]``."""
    return x.unflatten(1, (-1, 2, half))


def _blocks(x: torch.Tensor, half: int) -> torch.Tensor:
    """Of ``[m, C, r, C]``, the blocks below the diagonal between the halves of each pair, ``[m, half, r, half, pairs]``, a view."""
    parts = x.unflatten(3, (-1, 2, half)).unflatten(1, (-1, 2, half))
    return parts[:, :, 1, :, :, :, 0].diagonal(dim1=1, dim2=4)
