import pytest
import torch

from transect.capture.select import Layout, find_layout, pick_rows
from transect.errors import SiteError, TokenRuleError
from transect.sites import Place, parse_tokens

HERE = Place(name="layers[0]", module="x")
READS = [range(1, 4), range(2, 3)]


def layout(axes, *, tokens=5):
    return Layout(place=HERE, axes=axes, width=3, dtype=torch.float32, tokens=tokens)


@pytest.fixture
def hidden():
    return torch.arange(30.0).reshape(2, 5, 3)


@pytest.mark.parametrize(
    ("shape", "t", "axes"),
    [
        ((2, 7, 3), 7, "n t d"),
        ((7, 2, 3), 7, "t n d"),
        ((14, 3), 7, "(n t) d"),
        ((2, 3), 7, "n d"),
        ((2, 9, 3), None, "n t d"),
        ((2, 3), 1, "(n t) d"),
    ],
)
def test_layouts_are_told_apart(shape, t, axes):
    found = find_layout(HERE, torch.empty(shape, device="meta"), n=2, t=t)
    assert (found.axes, found.width) == (axes, 3)


@pytest.mark.parametrize("shape", [(2, 6, 3), (5, 3), (2, 4, 7, 3), (3,), (2, 7, 3, 1)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(SiteError, match=r"layers\[0\] has shape"):
        find_layout(HERE, torch.empty(shape), n=2, t=7)


def test_whole_numbers_are_no_activations():
    with pytest.raises(SiteError, match="int64"):
        find_layout(HERE, torch.ones(2, 7, 3, dtype=torch.int64), n=2, t=7)


@pytest.mark.parametrize("axes", ["n t d", "t n d", "(n t) d"])
def test_every_layout_and_rule_gives_the_same_rows(hidden, axes):
    given = {"n t d": hidden, "t n d": hidden.transpose(0, 1), "(n t) d": hidden.flatten(0, 1)}[axes]
    expected = {
        "1": torch.stack([hidden[0, 1], hidden[1, 2]]),
        "mean": torch.stack([hidden[0, 1:4].mean(0), hidden[1, 2]]),
        "max": torch.stack([hidden[0, 3], hidden[1, 2]]),
        "all": torch.cat([hidden[0, 1:4], hidden[1, 2:3]]),
    }
    for rule, rows in expected.items():
        assert torch.equal(pick_rows(given, layout(axes), READS, parse_tokens(rule)), rows)


@pytest.mark.parametrize("rule", ["last", "mean", "max", "all"])
@pytest.mark.parametrize("n", [1, 2])
def test_what_is_kept_is_a_copy_of_its_own(hidden, rule, n):
    hidden = hidden[:n]
    kept = pick_rows(hidden, layout("n t d"), [range(5)] * n, parse_tokens(rule))
    assert kept.untyped_storage().data_ptr() != hidden.untyped_storage().data_ptr()
    assert kept.untyped_storage().nbytes() == kept.numel() * 4
    before = kept.clone()
    hidden.zero_()
    assert torch.equal(kept, before)


def test_vectors_without_tokens_are_copied_and_take_last_only(hidden):
    vectors = hidden[:, 0].clone()
    kept = pick_rows(vectors, layout("n d", tokens=None), None, parse_tokens("last"))
    assert torch.equal(kept, vectors)
    assert kept.data_ptr() != vectors.data_ptr()
    with pytest.raises(TokenRuleError, match="no tokens"):
        pick_rows(vectors, layout("n d", tokens=None), None, parse_tokens("mean"))


def test_without_reads_the_rule_counts_the_tokens_itself(hidden):
    assert torch.equal(pick_rows(hidden, layout("n t d"), None, parse_tokens("-2")), hidden[:, 3])


def test_means_of_half_precision_are_taken_in_full():
    hidden = torch.full((1, 4096, 1), 1.0, dtype=torch.bfloat16)
    hidden[0, 0] = 1000
    rule = parse_tokens("mean")
    kept = pick_rows(hidden, Layout(place=HERE, axes="n t d", width=1, dtype=torch.bfloat16, tokens=4096), [range(4096)], rule)
    assert kept.dtype == torch.bfloat16
    assert torch.equal(kept, torch.tensor([[1 + 999 / 4096]]).bfloat16())


@pytest.mark.parametrize("shape", [(3, 5, 3), (2, 3, 3), (2, 5, 4), (2, 5)])
def test_a_shape_that_changed_is_refused(shape):
    with pytest.raises(SiteError, match="changed its shape"):
        pick_rows(torch.zeros(shape), layout("n t d"), READS, parse_tokens("all"))
