"""Numbers chosen by tokens: complex ones in every form, what they are as matrices, and what is refused."""

import pytest
import torch

from transect import mixers
from transect.errors import InputError


def _complex(*shape, seed=0):
    return torch.randn(shape, dtype=torch.complex128, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("form", ["chunk", "recurrent", "parallel"])
def test_complex_numbers_in_every_form_also_packed(form):
    given = [0.7 * _complex(1, 37, 2, 3), _complex(1, 37, 2, 3, seed=1), _complex(3, 2, 3, seed=2)]
    given[0][:, 20, 1] = 0
    for dtype, bound in ((torch.complex128, 1e-12), (torch.complex64, 1e-5)):
        found = []
        for way, kind in (("naive", torch.complex128), (form, dtype)):
            a, b, start = (part.to(dtype).to(kind).requires_grad_() for part in given)
            settings = {"output_final_state": True, "cu_seqlens": [0, 11, 11, 37], "form": way, "chunk_size": 4}
            out, last = mixers.diagonal_recurrence(a, b, initial_state=start, **settings)
            loss = (out.abs() ** 2).sum() + last.real.sum()
            found.append([out.detach(), last.detach(), *torch.autograd.grad(loss, [a, b, start])])
        for one, truth in zip(found[1], found[0], strict=True):
            assert float((one - truth).abs().max() / truth.abs().max()) < bound


def test_a_rotation_is_a_matrix_of_two_rows():
    angles, added = torch.randn(2, 21, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), _complex(2, 21, 3, 2)
    turns = torch.polar(torch.ones_like(angles), angles)
    cos, sin = angles.cos(), angles.sin()
    matrices = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2).flatten(2, 3)
    truth, _ = mixers.matrix_recurrence(matrices, torch.view_as_real(added).flatten(2, 3))
    found, _ = mixers.diagonal_recurrence(turns, added)
    assert torch.allclose(torch.view_as_real(found).flatten(2, 3), truth, rtol=0, atol=1e-12)


def test_16_bit_numbers_are_multiplied_in_32():
    draw = torch.Generator().manual_seed(0)
    a, b = (torch.randn(1, 40, 1, 4, generator=draw).to(torch.bfloat16) for _ in range(2))
    out, last = mixers.diagonal_recurrence(a, b, output_final_state=True)
    truth, end = mixers.diagonal_recurrence(a.float(), b.float(), output_final_state=True)
    assert torch.equal(out, truth.to(torch.bfloat16))
    assert torch.equal(last, end)


def test_refuses():
    one = torch.ones(1, 3, 1, 2)
    for given, says in (
        ({"factors": one[:, :2]}, r"got torch.float32 \[1, 2, 1, 2\]"),
        ({"factors": one + 0j}, "both real or both complex"),
        ({"initial_state": one[:, 0] + 0j}, "got torch.complex64"),
        ({"initial_state": one[0, 0]}, r"initial_state torch.float32 \[1, 1, 2\]"),
        ({"cu_seqlens": [0, 1]}, "rise from 0"),
    ):
        with pytest.raises(InputError, match=says):
            mixers.diagonal_recurrence(**{"factors": one, "additions": one, **given})
