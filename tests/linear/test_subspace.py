import dataclasses

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles

from transect.errors import InputError, MismatchError, StoreError
from transect.linear import Direction, Origin, Readout, Subspace
from transect.testing import check_subspace


def rows(k, d, seed=0, dtype=torch.float64):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(k, d))).to(dtype)


@pytest.mark.parametrize("rank", [0, 1, 3, 7])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_every_rank_and_dtype_keeps_the_contract(rank, dtype):
    subspace = Subspace(basis=rows(rank, 7, dtype=dtype), origin=Origin(site="layers[3]", settings={"k": rank}))
    assert subspace.basis.dtype == torch.promote_types(dtype, torch.float32)
    check_subspace(subspace)


def test_projection_equals_the_definition():
    given, x = rows(3, 9), rows(5, 9, seed=1)
    whole = given.T @ torch.linalg.inv(given @ given.T) @ given
    subspace = Subspace(basis=given)
    assert torch.allclose(subspace.project(x), x @ whole, atol=1e-12, rtol=0)
    assert torch.allclose(subspace.remove(x), x - x @ whole, atol=1e-12, rtol=0)


def test_the_first_rows_keep_their_span_and_their_sense():
    given = rows(4, 6)
    basis = Subspace(basis=given).basis
    for k in range(1, 5):
        assert float(Subspace(basis=given[:k]).angles(Subspace(basis=basis[:k])).max()) < 1e-7
    assert (given * basis).sum(1).min() > 0


@pytest.mark.parametrize(("k", "m"), [(1, 1), (2, 4), (4, 2), (3, 3)])
def test_angles_equal_those_of_scipy(k, m):
    one, two = rows(k, 8), rows(m, 8, seed=2)
    found = Subspace(basis=one).angles(Subspace(basis=two))
    np.testing.assert_allclose(found, np.sort(subspace_angles(one.T.numpy(), two.T.numpy())), atol=1e-12, rtol=0)


def test_a_narrow_angle_keeps_its_digits():
    tilt = 1e-9
    one, two = torch.tensor([[1.0, 0.0]], dtype=torch.float64), torch.tensor([[1.0, tilt]], dtype=torch.float64)
    assert float(Subspace(basis=one).angles(Subspace(basis=two))[0]) == pytest.approx(tilt, rel=1e-6)


def test_it_is_saved_frozen_and_told_apart_from_other_kinds(tmp_path):
    subspace = Subspace.of(Readout(weight=rows(3, 5), bias=torch.zeros(3), link="softmax", classes=("a", "b", "c")))
    subspace.save(tmp_path / "s")
    assert Subspace.load(tmp_path / "s").equals(subspace)
    Direction(vector=torch.ones(2)).save(tmp_path / "d")
    with pytest.raises(StoreError, match="holds a Direction"):
        Subspace.load(tmp_path / "d")
    with pytest.raises(dataclasses.FrozenInstanceError):
        subspace.basis = rows(1, 5)


@pytest.mark.parametrize(
    ("basis", "message"),
    [
        (torch.ones(3), r"basis \[k, d\]"),
        (torch.ones(4, 3), "at most 3"),
        (torch.tensor([[1.0, 0.0], [2.0, 0.0]]), "row 1 .* depends"),
        (torch.tensor([[0.0, 0.0]]), "row 0 .* zero"),
        (torch.tensor([[1.0, 0.0], [0.0, float("nan")]]), "row 1"),
    ],
)
def test_a_basis_that_spans_less_than_it_says_is_refused(basis, message):
    with pytest.raises(InputError, match=message):
        Subspace(basis=basis)


def test_other_widths_are_refused():
    with pytest.raises(MismatchError, match="width 4, got activations of shape"):
        Subspace(basis=rows(2, 4)).project(torch.ones(2, 5))
    with pytest.raises(MismatchError, match="got 4 and 5"):
        Subspace(basis=rows(2, 4)).angles(Subspace(basis=rows(2, 5)))


class Leaves(Subspace):
    def remove(self, activations):
        return super().remove(activations) + 0.1 * self.project(activations)


class Oblique(Subspace):
    def __post_init__(self):
        object.__setattr__(self, "basis", self.basis * torch.linspace(1, 1.1, len(self.basis), dtype=self.basis.dtype).unsqueeze(1))


class InPlace(Subspace):
    def remove(self, activations):
        return activations.sub_(self.project(activations))


class Shifted(Subspace):
    def complement(self):
        return Subspace(basis=self.basis)


@pytest.mark.parametrize(
    ("broken", "clause"),
    [(Leaves, "add up"), (Oblique, "orthonormal"), (InPlace, "changed its input"), (Shifted, "complement")],
)
def test_broken_subspaces_fail_the_check(broken, clause):
    with pytest.raises(AssertionError, match=clause):
        check_subspace(broken(basis=torch.eye(5)[:2]))
