import pytest
import torch
from torch import nn

from transect.capture.guard import untouched


class Restless(nn.Module):
    """A module that changes itself whenever it runs, in the ways that real models do."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.tied = self.linear.weight
        self.register_buffer("scale", torch.ones(3))
        self.register_buffer("calls", torch.zeros(()))
        self.halved = False
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        if not self.halved:
            self.linear.weight.data.div_(2)
            self.halved = True
        self.calls += 1
        self.scale = torch.full((3,), 2.0)
        self.cache = x
        torch.rand(5)
        return self.dropout(self.linear(x)) * self.scale


def snapshot(module):
    tensors = {name: tensor.clone() for name, tensor in (*module.named_parameters(), *module.named_buffers())}
    return (
        tensors,
        {name: id(tensor) for name, tensor in (*module.named_parameters(), *module.named_buffers())},
        module.halved,
        set(vars(module)),
    )


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
def test_everything_is_put_back(error):
    module = Restless()
    module.dropout.eval()
    before, state = snapshot(module), torch.get_rng_state()
    try:
        with untouched(module) as overwrites, overwrites:
            assert not torch.is_grad_enabled()
            assert not any(child.training for child in module.modules())
            module(torch.ones(2, 3))
            assert overwrites.any
            if error is not None:
                raise error
    except (RuntimeError, KeyboardInterrupt) as caught:
        assert type(caught) is error
    after = snapshot(module)
    assert all(torch.equal(before[0][name], after[0][name]) for name in before[0])
    assert before[1:] == after[1:]
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()
    assert [child.training for child in (module, module.linear, module.dropout)] == [True, True, False]


def test_a_module_that_rests_is_not_copied():
    module = nn.Linear(3, 3)
    with untouched(module) as overwrites, overwrites:
        module(torch.ones(2, 3)).add_(1)  # writes, but not into the module
        assert not overwrites.any


def test_weights_without_memory_are_passed_over():
    module = nn.Linear(3, 3, device="meta")
    with untouched(module) as overwrites, overwrites:
        assert module(torch.ones(2, 3, device="meta")).shape == (2, 3)
