r"""Probes restricted to the best few dimensions: partial least squares, for many labellings at once.

The subspace of ``k`` dimensions is the Krylov space of partial least squares (Wold 1975; Helland 1988)

    K_k = span(b, Sb, S^2 b, ..., S^(k-1) b),    S = Z'Z, b = Z'y

and the probe is least squares inside it. Its first dimension, k = 1, is the difference of the class means; with every dimension it is
least squares on everything. The spaces are nested, and each takes in the direction that lowers the error of the last fit fastest, which
is what "the best k dimensions" means here. They are built for all labellings side by side, each orthonormal, as a few wide products.
`naive.naive_subspace_scores`, by deflation, is the definition.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from transect.errors import InputError
from transect.linear import Origin, Subspace
from transect.probes._rotation import working_dtype
from transect.probes.problems import MOST_ENTRIES

_SPENT = 1e-10  # a new dimension this short beside what it was made of is rounding: the space is whole


@torch.no_grad()
def subspace_scores(x: torch.Tensor, targets: Any, x_eval: torch.Tensor, *, ranks: Sequence[int]) -> np.ndarray:
    """Scores ``[len(ranks), m, b]`` of probes inside the best k dimensions, for each rank k and each of ``b`` labellings.

    Args:
        x: ``[n, d]`` rows to fit, on any device.
        targets: ``[n, b]`` numbers of each labelling: plus and minus one, 0 and 1, or anything.
        x_eval: ``[m, d]`` rows to score.
        ranks: whole numbers from 1 to ``min(n - 1, d)``. Where fewer dimensions carry all that rows and labels share, more change nothing.

    Raises:
        InputError: shapes that do not fit, or a rank out of range.

    Examples:
        >>> x = torch.tensor([[-1.0, 0.0], [-1.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        >>> subspace_scores(x, [[0], [0], [1], [1]], x, ranks=[1]).ravel().tolist()
        [-0.5, -0.5, 0.5, 0.5]
    """
    rows, rest, y = _centred(x, targets, x_eval, ranks)
    most, width = max(ranks), max(1, MOST_ENTRIES // (max(ranks) * (len(x) + len(x_eval) + x.shape[1])))
    parts = []
    for start in range(0, y.shape[1], width):
        some = y[:, start : start + width]
        basis, inside = _krylov(rows, some, most)
        outside = torch.stack([rest @ part for part in basis])
        parts.append(torch.stack([_least_squares(inside[:k], outside[:k], some) for k in ranks]))
    return torch.cat(parts, -1).cpu().numpy()


@torch.no_grad()
def best_subspace(x: torch.Tensor, targets: Any, *, rank: int) -> Subspace:
    """The best ``rank`` dimensions of rows ``[n, d]`` for one labelling ``[n]``; of a smaller rank where fewer carry everything.

    Raises:
        InputError: as for `subspace_scores`.

    Examples:
        >>> x = torch.tensor([[-1.0, 0.0], [-1.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        >>> best_subspace(x, [0, 0, 1, 1], rank=1).basis
        tensor([[1., 0.]])
    """
    rows, _, y = _centred(x, np.asarray(targets)[:, None], x[:1], [rank])
    basis = _krylov(rows, y, rank)[0].squeeze(-1)
    kept = basis[basis.square().sum(1) > 0.5].to(torch.promote_types(x.dtype, torch.float32))
    return Subspace(basis=kept, origin=Origin(fitter="best_subspace", settings={"rank": rank}))


def _centred(x: torch.Tensor, targets: Any, x_eval: torch.Tensor, ranks: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    working = working_dtype(x.device)
    y = torch.as_tensor(np.asarray(targets, dtype=np.float64)).to(x.device, working)
    if x.ndim != 2 or x_eval.ndim != 2 or y.ndim != 2 or len(y) != len(x) or x.shape[1] != x_eval.shape[1]:
        shapes = f"{list(x.shape)}, {list(y.shape)} and {list(x_eval.shape)}"
        raise InputError(f"expected rows [n, d], targets [n, b] and rows [m, d] to score, got {shapes}.")
    most = min(len(x) - 1, x.shape[1])
    wrong = [rank for rank in ranks if not 1 <= rank <= most]
    if not ranks or wrong:
        raise InputError(f"ranks must lie between 1 and {most}, the most that {len(x)} rows of width {x.shape[1]} have, got {list(ranks)}.")
    mean = x.to(working).mean(0)
    rows = torch.where((x == x[:1]).all(0), 0, x.to(working) - mean)
    return rows, x_eval.to(working) - mean, y - y.mean(0)


def _krylov(rows: torch.Tensor, y: torch.Tensor, most: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Orthonormal bases ``[k, d, b]`` and the rows in them ``[k, n, b]``; zeros where a space has ended."""
    basis = rows.new_zeros(most, rows.shape[1], y.shape[1])
    inside = rows.new_zeros(most, *y.shape)
    new = rows.T @ y
    before = torch.linalg.vector_norm(rows) * torch.linalg.vector_norm(y, dim=0)
    for k in range(most):
        for _ in range(2):  # twice is enough (Parlett)
            new = new - torch.einsum("kdb,kb->db", basis[:k], torch.einsum("kdb,db->kb", basis[:k], new))
        length = torch.linalg.vector_norm(new, dim=0)
        basis[k] = torch.where(length > _SPENT * before, new / length.clamp_min(torch.finfo(new.dtype).tiny), 0)
        inside[k] = rows @ basis[k]
        new = rows.T @ inside[k]
        before = torch.linalg.vector_norm(new, dim=0)
    return basis, inside


def _least_squares(inside: torch.Tensor, outside: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Scores ``[m, b]`` of least squares on ``inside [k, n, b]``, applied to ``outside [k, m, b]``."""
    square = torch.einsum("inb,jnb->bij", inside, inside)
    empty = torch.diagonal(square, dim1=1, dim2=2) <= 0
    square = square + torch.diag_embed(empty.to(square.dtype))  # an ended space has coefficient zero
    answer = torch.linalg.solve(square, torch.einsum("inb,nb->bi", inside, y))
    return torch.einsum("kmb,bk->mb", outside, answer)
