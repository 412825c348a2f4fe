"""Latent linear dynamics: the horizon at once is the loop, eigenvalues are found again, and gradients do not grow."""

import math

import pytest
import torch

from transect.errors import InputError
from transect.mixers import KoopmanDynamics


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def _model(**settings):
    return KoopmanDynamics(**{"state_size": 3, "action_size": 2, "latent_size": 5, **settings}).double()


def _system(rows=16, tokens=24, noise=0.0):
    """Paths of a linear system: a turning pair that fades, and one state that changes its sign."""
    a = torch.zeros(3, 3, dtype=torch.float64)
    a[:2, :2] = 0.95 * torch.tensor([[math.cos(0.7), -math.sin(0.7)], [math.sin(0.7), math.cos(0.7)]])
    a[2, 2] = -0.6
    mix = torch.randn(3, 3, dtype=torch.float64)
    a, b = mix @ a @ torch.linalg.inv(mix), torch.randn(3, 2, dtype=torch.float64)
    actions = torch.randn(rows, tokens, 2, dtype=torch.float64)
    states = [torch.randn(rows, 3, dtype=torch.float64)]
    for action in actions.unbind(1):
        states.append(states[-1] @ a.mT + action @ b.mT + noise * torch.randn(rows, 3, dtype=torch.float64))
    return torch.stack(states, 1), actions, a


@pytest.mark.parametrize("tokens", [1, 2, 37])
@pytest.mark.parametrize("form", ["auto", "chunk", "recurrent", "parallel", "naive"])
def test_the_horizon_at_once_is_the_loop(form, tokens):
    model = _model(
        encoder=torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 10)),
        action_encoder=torch.nn.Sequential(torch.nn.Linear(2, 10), torch.nn.Tanh()),
    )
    state, actions = torch.randn(2, 3, dtype=torch.float64), torch.randn(2, tokens, 2, dtype=torch.float64)
    z, found = model.encode(state), []
    for action in actions.unbind(1):
        z = model.step(z, action)
        found.append(model.decode(z))
    truth, out = torch.stack(found, 1), model.predict(state, actions, form=form)
    assert torch.allclose(out, truth, rtol=0, atol=1e-12)
    weight = torch.randn_like(truth)
    grads = [torch.autograd.grad((each * weight).sum(), list(model.parameters())) for each in (out, truth)]
    for one, other in zip(*grads, strict=True):
        assert torch.allclose(one, other, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("form", ["auto", "chunk", "recurrent"])
def test_later_actions_change_no_bit_of_earlier_predictions(form):
    model, state, actions = _model(), torch.randn(2, 3, dtype=torch.float64), torch.randn(2, 40, 2, dtype=torch.float64)
    changed = torch.cat([actions[:, :17], 1e6 * actions[:, 17:]], 1)
    assert torch.equal(model.predict(state, actions, form=form)[:, :17], model.predict(state, changed, form=form)[:, :17])


def test_the_closed_form_finds_a_system_again():
    states, actions, a = _system()
    model = KoopmanDynamics.fitted(states, actions)
    truth = torch.linalg.eigvals(a)
    found = model.spectrum().eigenvalues
    assert torch.allclose(*(x[x.imag.argsort()] for x in (truth, found)), rtol=0, atol=1e-8)
    assert torch.allclose(model.predict(states[:, 0], actions), states[:, 1:], rtol=0, atol=1e-7)
    assert float(model.loss(states, actions).total().detach()) < 1e-12
    noisy, actions, a = _system(rows=64, noise=0.05)
    off = KoopmanDynamics.fitted(noisy, actions).spectrum().eigenvalues
    truth = torch.linalg.eigvals(a)
    assert float((truth[:, None] - off).abs().amin(1).max()) < 0.03


def test_gradients_find_a_spectrum_again():
    states, actions, a = _system(rows=32, tokens=12)
    model = _model(latent_size=3)  # a turning pair is one complex latent, a sign another
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    first = float(model.loss(states, actions).prediction.detach())
    for _ in range(250):
        optimizer.zero_grad()
        loss = model.loss(states, actions, form="parallel").total(consistency=0.1)
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 1e-2 * first
    found = model.spectrum().eigenvalues
    found = torch.cat([found, found.conj()])
    assert float((torch.linalg.eigvals(a)[:, None] - found).abs().amin(1).max()) < 0.02


def test_gradients_are_bounded_over_any_horizon():
    model = _model()
    with torch.no_grad():
        model.nu.copy_(torch.tensor([-30.0, -3.0, 0.0, 3.0, -8.0]))
        model.theta.mul_(100)
    assert bool((model.spectrum().moduli <= 1).all())
    for tokens in (1, 10, 1000):
        z = torch.randn(1, 5, dtype=torch.complex128, requires_grad=True)
        last = z
        for action in torch.randn(tokens, 1, 2, dtype=torch.float64):
            last = model.step(last, action)
        (grad,) = torch.autograd.grad(last.real.sum() + last.imag.sum(), z)
        decays = (-tokens * model.nu.detach().exp()).exp()
        assert torch.allclose(grad.abs(), math.sqrt(2) * decays, rtol=1e-9, atol=1e-12)
    state = torch.randn(2, 3, dtype=torch.float64)
    far = model.predict(state, torch.zeros(2, 4000, 2, dtype=torch.float64))
    assert float(far.detach().abs().max()) < 1e2


def test_the_spectrum_is_read_slowest_first():
    model = _model(latent_size=3)
    with torch.no_grad():
        model.nu.copy_(torch.tensor([0.5, 0.1, 0.0], dtype=torch.float64).log())
        model.theta.copy_(torch.tensor([math.pi / 2, 7 * math.pi / 2, 0.0], dtype=torch.float64))
    found = model.spectrum()
    assert found.moduli.tolist() == pytest.approx([1.0, math.exp(-0.1), math.exp(-0.5)])
    assert found.frequencies.tolist() == pytest.approx([0.0, -0.25, 0.25])
    assert found.half_lives.tolist() == pytest.approx([math.inf, math.log(2) / 0.1, math.log(2) / 0.5])
    eigenvalues = [1, math.exp(-0.1) * -1j, math.exp(-0.5) * 1j]
    assert torch.allclose(found.eigenvalues, torch.tensor(eigenvalues, dtype=torch.complex128), rtol=0, atol=1e-7)


def test_sixteen_bits_work():
    model = KoopmanDynamics(state_size=3, action_size=2, latent_size=5).to(torch.bfloat16)
    out = model.predict(torch.randn(2, 3).bfloat16(), torch.randn(2, 9, 2).bfloat16())
    assert out.dtype == torch.bfloat16
    assert bool(out.isfinite().all())


def test_refuses():
    model, state, actions = _model(), torch.zeros(2, 3, dtype=torch.float64), torch.zeros(2, 4, 2, dtype=torch.float64)
    with pytest.raises(InputError, match="at least 1"):
        _model(latent_size=0)
    for decay in (0.0, math.inf, math.nan):
        with pytest.raises(InputError, match="finite decay above 0"):
            _model(decay=decay)
    with pytest.raises(InputError, match=r"states \[\.\.\., 3\]"):
        model.predict(state[:, :2], actions)
    with pytest.raises(InputError, match=r"actions \[\.\.\., 2\]"):
        model.predict(state, actions[..., :1])
    with pytest.raises(InputError, match=r"\[B, D\] and actions \[B, H, A\]"):
        model.predict(state[:1], actions)
    with pytest.raises(InputError, match=r"an encoder of states to \[\.\.\., 10\]"):
        _model(encoder=torch.nn.Linear(3, 5)).predict(state, actions)
    with pytest.raises(InputError, match=r"latents \[\.\.\., 5\]"):
        model.decode(torch.zeros(4, dtype=torch.complex128))
    with pytest.raises(InputError, match=r"\[B, H \+ 1, D\]"):
        model.loss(torch.zeros(2, 4, 3), actions)
    for paths, steps in ((2, 0), (0, 4)):
        with pytest.raises(InputError, match="no empty states or actions"):
            model.loss(torch.zeros(paths, steps + 1, 3), torch.zeros(paths, steps, 2))
    for width, acts in ((0, 2), (3, 0)):
        with pytest.raises(InputError, match="without actions give zeros"):
            KoopmanDynamics.fitted(torch.zeros(2, 5, width), torch.zeros(2, 4, acts))
    with pytest.raises(InputError, match="at least 5 steps"):
        KoopmanDynamics.fitted(torch.zeros(1, 4, 3), torch.zeros(1, 3, 2))
    with pytest.raises(InputError, match="too few"):
        chain = torch.tensor([[0.5, 1.0], [0.0, 0.5]], dtype=torch.float64)
        path = [torch.randn(8, 2, dtype=torch.float64)]
        for _ in range(6):
            path.append(path[-1] @ chain.mT)
        KoopmanDynamics.fitted(torch.stack(path, 1), torch.randn(8, 6, 1, dtype=torch.float64))


def test_a_fit_changes_nothing_of_its_caller():
    states, actions, _ = _system(rows=4)
    given, random = (states.clone(), actions.clone()), torch.get_rng_state()
    first, second = (KoopmanDynamics.fitted(states, actions) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.equal(states, given[0])
    assert torch.equal(actions, given[1])
    assert all(torch.equal(one, other) for one, other in zip(first.parameters(), second.parameters(), strict=True))
    for dtype in (torch.float32, torch.bfloat16):
        made = KoopmanDynamics.fitted(states.to(dtype), actions.to(dtype))
        assert {part.dtype for part in made.parameters()} == {dtype}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_fit_is_on_the_device_of_its_states():
    states, actions, _ = _system(rows=4)
    made = KoopmanDynamics.fitted(states.cuda(), actions.cuda())
    assert torch.allclose(made.predict(states[:, 0].cuda(), actions.cuda()).cpu(), states[:, 1:], rtol=0, atol=1e-7)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_fit_refuses_numbers_that_are_not_finite(value):
    states, actions, _ = _system(rows=4)
    for name, given in (("states", states), ("actions", actions)):
        bad = given.clone()
        bad[2, -1, 0] = value
        with pytest.raises(InputError, match=f"expected finite {name}, got NaN or infinity in 1 of 4 paths, first in path 2"):
            KoopmanDynamics.fitted(**{"states": states, "actions": actions, name: bad})
    with pytest.raises(InputError, match=r"torch\.int64"):
        KoopmanDynamics.fitted(states.long(), actions)


def _led(states, gain, noise):
    """Paths of a system whose actions are a function of the states, but for noise."""
    found, actions = [states], []
    for _ in range(12):
        actions.append(gain * found[-1][:, :1] + noise * torch.randn(len(states), 1, dtype=states.dtype))
        found.append(torch.tensor([0.9, -0.5], dtype=states.dtype) * found[-1] + actions[-1])
    return torch.stack(found, 1), torch.stack(actions, 1)


def test_a_fit_refuses_actions_that_follow_from_the_states():
    start = torch.randn(8, 2, dtype=torch.float64)
    for dtype in (torch.float32, torch.float64):
        with pytest.raises(InputError, match="vary the actions"):
            KoopmanDynamics.fitted(*_led(start.to(dtype), -0.5, 0.0))
    truth = torch.tensor([0.9, 0.5], dtype=torch.float64)
    for gain, noise in ((-0.5, 1e-2), (0.0, 0.0)):  # a little noise tells effects apart, and there may be no actions at all
        found = KoopmanDynamics.fitted(*_led(start, gain, noise)).spectrum()
        assert torch.allclose(found.moduli, truth, rtol=0, atol=1e-9)
    assert float(KoopmanDynamics.fitted(torch.tensor([[[1.0], [0.0], [0.0]]]), torch.zeros(1, 2, 1)).spectrum().moduli) < 1e-9


def test_a_fit_refuses_a_system_that_grows_but_not_the_noise_of_one_that_does_not():
    def walk(modulus, tokens):
        states, actions = [torch.ones(4, 1, dtype=torch.float64)], torch.randn(4, tokens, 1, dtype=torch.float64)
        for action in actions.unbind(1):
            states.append(modulus * states[-1] + action)
        return torch.stack(states, 1), actions

    with pytest.raises(InputError, match=r"modulus 1\.3, more than tenfold in 12 steps"):
        KoopmanDynamics.fitted(*walk(1.3, 12))
    found = KoopmanDynamics.fitted(*walk(1.01, 12)).spectrum().moduli
    assert found.tolist() == pytest.approx([1.0], rel=1e-9)
