import numpy as np
import pyarrow as pa
import pytest
import torch

from transect.capture import Activations
from transect.errors import InputError, SiteError


@pytest.fixture
def acts():
    tensors = {"layers[0]": torch.arange(12.0).reshape(4, 3), "final_norm": torch.ones(4, 2)}
    return Activations(tensors=tensors, rows=pa.table({"row": range(4), "label": list("abcd")}), provenance={"tokens": "mean"})


def test_it_knows_its_sites_rows_and_tokens(acts):
    assert acts.sites == ("layers[0]", "final_norm")
    assert (len(acts), acts.tokens) == (4, "mean")
    assert acts["final_norm"].shape == (4, 2)
    assert repr(acts) == "Activations(4 rows, tokens='mean', 2 sites: layers[0], final_norm)"


def test_an_unknown_site_is_an_error_with_near_matches(acts):
    with pytest.raises(SiteError, match=r"'layer\[0\]'.*did you mean 'layers\[0\]'"):
        acts["layer[0]"]


@pytest.mark.parametrize("index", [[3, 0], np.array([3, 0]), torch.tensor([3, 0]), [-1, 0], np.array([True, False, False, True])])
def test_rows_are_taken_by_index_or_mask(acts, index):
    taken = acts.take(index)
    order = [3, 0] if np.asarray(index).dtype != bool else [0, 3]
    assert torch.equal(taken["layers[0]"], acts["layers[0]"][order])
    assert taken.rows["label"].to_pylist() == [list("abcd")[row] for row in order]
    assert (len(taken), taken.sites, taken.tokens) == (2, acts.sites, "mean")
    assert torch.equal(taken.take([1])["layers[0]"], acts["layers[0]"][order[1:]])


@pytest.mark.parametrize("index", [[4], [-5], np.array([True, False]), [[0, 1]]])
def test_indices_out_of_range_are_refused(acts, index):
    with pytest.raises(InputError):
        acts.take(index)


def test_no_rows_may_be_taken(acts):
    assert acts.take([])["layers[0]"].shape == (0, 3)


def test_it_is_frozen_and_checks_its_shapes(acts):
    with pytest.raises(AttributeError):
        acts.rows = None
    with pytest.raises(InputError, match=r"x must be \[n, d\] with 4 rows"):
        Activations(tensors={"x": torch.ones(3, 2)}, rows=acts.rows, provenance={})
