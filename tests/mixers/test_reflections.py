"""Reflections keep lengths, undo themselves, and work as a feature map."""

import pytest
import torch

from transect import mixers
from transect.errors import InputError
from transect.mixers import layers
from transect.testing import check_mixer_layer


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.mark.parametrize("block_size", [None, 2, 1])
def test_reflections_keep_lengths_and_undo_themselves(block_size):
    found = layers.Reflections(num_heads=3, head_dim=4, block_size=block_size).double()
    x = torch.randn(2, 5, 3, 4, dtype=torch.float64)
    assert torch.allclose(found.reflect(x).norm(dim=-1), x.norm(dim=-1), rtol=0, atol=1e-12)
    assert torch.allclose(found.reflect(found.reflect(x)), x, rtol=0, atol=1e-12)
    assert not torch.allclose(found.reflect(x), x)
    assert (found(x) >= 0).all()


def test_contract_in_linear_attention():
    feature_map = layers.Reflections(num_heads=2, head_dim=4, block_size=2)
    check_mixer_layer(mixers.LinearAttention(hidden_size=12, num_heads=2, head_k_dim=4, head_v_dim=6, feature_map=feature_map))


def test_refuses():
    with pytest.raises(InputError, match="divides head_dim = 4, got 3"):
        layers.Reflections(num_heads=2, head_dim=4, block_size=3)
    with pytest.raises(InputError, match=r"\[2, 4\], got \[3, 4\]"):
        layers.Reflections(num_heads=2, head_dim=4)(torch.ones(1, 1, 3, 4))
