"""Inverses of unit-triangular matrices: all agree where keys are unlike, and the direct ones alone where they are alike."""

import pytest
import torch

from transect.errors import InputError
from transect.mixers.triangular import invert_unit_lower


def _system(size, *, alike, beta):
    draw = torch.Generator().manual_seed(0)
    k = torch.randn(4, size, 64, generator=draw, dtype=torch.float64)
    if alike:
        k = k[:, :1].expand_as(k)
    k = torch.nn.functional.normalize(k, dim=-1)
    return torch.eye(size, dtype=torch.float64) + beta * (k @ k.mT).tril(-1)


def _off(found, truth):
    return float((found.double() - truth).abs().max() / truth.abs().max())


@pytest.mark.parametrize("method", ["substitution", "blocked", "neumann", "newton"])
@pytest.mark.parametrize("size", [1, 2, 16, 24, 64])
def test_unlike_keys_are_inverted_by_all(method, size):
    matrix = _system(size, alike=False, beta=1.0)
    truth = torch.linalg.inv(matrix)
    assert _off(invert_unit_lower(matrix, method=method), truth) < 1e-12
    assert _off(invert_unit_lower(matrix.float(), method=method), truth) < 1e-5


def test_keys_all_alike_are_inverted_by_the_direct_ones_alone():
    matrix = _system(64, alike=True, beta=2.0)
    truth = torch.linalg.inv(matrix)
    for method in ("substitution", "blocked"):
        assert _off(invert_unit_lower(matrix.float(), method=method), truth) < 1e-5
    for method in ("neumann", "newton"):
        found = invert_unit_lower(matrix.float(), method=method)
        assert not found.isfinite().all() or _off(found, truth) > 1


def test_refuses():
    with pytest.raises(InputError, match="square"):
        invert_unit_lower(torch.ones(2, 3))
    with pytest.raises(InputError, match="newton"):
        invert_unit_lower(torch.eye(2), method="newtn")
