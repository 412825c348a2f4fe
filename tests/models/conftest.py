"""What these tests share."""

import pytest
import torch


@pytest.fixture
def draws():
    """For tests that build modules of their own: torch draws their weights from the global generator, which is put back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
