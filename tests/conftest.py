"""What every test shares."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
import torch


def pytest_configure() -> None:
    # With several workers on few cores, one thread each is faster than all of them fighting.
    if os.environ.get("PYTEST_XDIST_WORKER"):
        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def random_state_is_left_alone() -> Iterator[None]:
    """No test, and so nothing of ours that it calls, may move the global random generators or torch's defaults."""
    before = (torch.get_rng_state(), numpy.random.get_state()[1].copy(), torch.get_default_dtype(), torch.is_grad_enabled())  # noqa: NPY002
    yield
    after = (torch.get_rng_state(), numpy.random.get_state()[1], torch.get_default_dtype(), torch.is_grad_enabled())  # noqa: NPY002
    assert torch.equal(before[0], after[0]), "the global torch generator moved"
    assert numpy.array_equal(before[1], after[1]), "the global numpy generator moved"
    assert before[2:] == after[2:], "the default dtype or grad mode changed"


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
