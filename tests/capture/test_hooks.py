import pytest
import torch
from torch import nn

from transect.capture.hooks import Listener, first_tensor
from transect.errors import SiteError
from transect.sites import Place


class Net(nn.Module):
    """Three blocks and a head that must not run; block 1 returns a tuple, block 2 is called by keyword."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.pair = nn.LSTM(4, 4, batch_first=True)
        self.head = nn.Linear(4, 2)
        self.unused = nn.Linear(4, 4)

    def forward(self, x):
        x = self.blocks[0](x)
        x, _ = self.pair(x)
        x = self.blocks[1](input=x)
        x = self.blocks[2](x)
        return self.head(x)


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def places(*names):
    return [Place(name=name, module=name.removesuffix(".in"), end="input" if name.endswith(".in") else "output") for name in names]


def whole(index, hidden):
    return hidden.clone()


def test_the_pass_ends_after_the_last_site(net):
    ran = []
    for name, module in net.named_modules():
        module.register_forward_pre_hook(lambda *_, name=name: ran.append(name))
    with Listener(net, places("blocks.1", "blocks.0")) as listener:
        kept = listener.collect(lambda: net(torch.ones(2, 3, 4)), whole)
    assert "blocks.2" not in ran
    assert "head" not in ran
    assert torch.equal(kept[1], net.blocks[0](torch.ones(2, 3, 4)))


def test_tuples_and_keyword_inputs_are_read(net):
    x = torch.ones(2, 3, 4)
    with Listener(net, places("pair", "blocks.1.in", "blocks.1")) as listener:
        pair, into, out = listener.collect(lambda: net(x), whole)
    assert torch.equal(pair, net.pair(net.blocks[0](x))[0])
    assert torch.equal(into, pair)
    assert torch.equal(out, net.blocks[1](pair))


def test_a_site_that_never_runs_is_named(net):
    with Listener(net, places("blocks.0", "unused")) as listener, pytest.raises(SiteError, match="unused did not run"):
        listener.collect(lambda: net(torch.ones(1, 2, 4)), whole)


@pytest.mark.parametrize("way", ["observe", "collect"])
def test_a_site_that_runs_twice_is_named(way):
    shared = nn.Linear(4, 4)
    net = nn.Sequential(shared, nn.ReLU(), shared, nn.ReLU())
    with Listener(net, places("0", "3")) as listener, pytest.raises(SiteError, match=r"0 .*runs more than once"):
        if way == "observe":
            listener.observe(lambda: net(torch.ones(1, 4)))
        else:
            listener.collect(lambda: net(torch.ones(1, 4)), whole)


def test_except_exception_in_a_model_does_not_swallow_the_stop():
    class Careful(nn.Module):
        def __init__(self):
            super().__init__()
            self.block, self.head = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            try:
                x = self.block(x)
            except Exception:
                x = x * 0
            return self.head(x)

    net, ran = Careful(), []
    net.head.register_forward_hook(lambda *_: ran.append("head"))
    with Listener(net, places("block")) as listener:
        listener.collect(lambda: net(torch.ones(1, 4)), whole)
    assert ran == []


def test_hooks_are_gone_after_any_end(net):
    others = [net.blocks[0].register_forward_hook(lambda *_: None), net.blocks[0].register_forward_pre_hook(lambda *_: None)]

    def counts():
        return [(len(module._forward_hooks), len(module._forward_pre_hooks)) for module in net.modules()]

    before = counts()
    for error in (None, ValueError, KeyboardInterrupt):
        try:
            with Listener(net, places("blocks.0", "blocks.2.in")) as listener:
                listener.collect(lambda: net(torch.ones(1, 2, 4)), whole)
                if error is not None:
                    raise error
        except (ValueError, KeyboardInterrupt):
            pass
        assert counts() == before
    with pytest.raises(AttributeError):
        Listener(net, places("blocks.0", "nowhere")).__enter__()
    assert counts() == before
    assert len(others) == 2


def test_outside_of_a_collection_the_hooks_do_nothing(net):
    with Listener(net, places("blocks.0")):
        assert net(torch.ones(1, 2, 4)).shape == (1, 2, 2)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(torch.ones(2), 2), ((torch.ones(2), torch.ones(3)), 2), ([None, torch.ones(3)], 3), ({"a": None, "b": torch.ones(4)}, 4)],
)
def test_the_first_tensor_is_found(value, expected):
    assert len(first_tensor(value, places("x")[0])) == expected


@pytest.mark.parametrize("value", [None, "text", (), {"a": 1}])
def test_no_tensor_is_an_error(value):
    with pytest.raises(SiteError, match="has no tensor"):
        first_tensor(value, places("x")[0])
