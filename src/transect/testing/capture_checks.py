"""The contract of a capture, as a check that any model and any capture function can be put through."""

import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from transect.capture import Activations, capture
from transect.capture.naive import naive_capture
from transect.models import Model

CaptureFunction = Callable[..., Activations]


def check_capture(
    model: Model,
    data: Sequence[str] | torch.Tensor,
    *,
    capture: CaptureFunction = capture,
    sites: Sequence[str] | None = None,
    batch_tokens: int = 16,
    atol: float = 1e-5,
) -> None:
    """Check that capturing from a model gives what each example alone would give, and leaves no trace.

    1. Every token rule equals `naive_capture`: one example at a time, no padding, no early stop.
    2. The tokenizer's padding side changes nothing, not one bit; neither does the order of the data, beyond rounding.
    3. Each site alone, where the pass ends early, equals all sites together; another hook's change is seen.
    4. The final norm's site is the norm of the last block's site.
    5. A store holds the same bits as memory, and so does one that was interrupted and went on.
    6. Weights, buffers, training flags, attributes, hooks, random state and gradient mode are as before, also after
       Ctrl-C in the middle of a pass.

    Args:
        model: any model that `transect.load` gives.
        data: a few texts of different lengths, or a tensor ``[n, ...]`` for models that take tensors.
        capture: the function to check.
        sites: the sites to check; the model's readable ones when None.
        batch_tokens: the budget of a batch, small enough for several batches.
        atol: the largest absolute difference, on top of the same relative one.

    Raises:
        AssertionError: a clause does not hold; the message says which and by how much.

    Examples:
        >>> from transect.testing.tiny import tiny
        >>> check_capture(tiny("llama"), ["The city of Paris", "Yes", "It is so", "No"])
    """
    sites = tuple(sites or model.sites())
    check = _Check(model=model, data=data, run=capture, sites=sites, batch_tokens=batch_tokens, atol=atol)
    with check.no_trace("a capture"):
        check.token_rules()
    check.padding_side()
    check.order()
    check.early_stop()
    check.other_hooks()
    check.final_norm()
    check.store()
    check.interruption()
    check.training_mode()


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Check:
    """One model and one capture function under examination."""

    model: Model
    data: Any
    run: CaptureFunction
    sites: tuple[str, ...]
    batch_tokens: int
    atol: float

    def capture(self, data: Any = None, **settings: Any) -> Activations:
        """Run the function under examination."""
        settings = {"sites": self.sites, "batch_tokens": self.batch_tokens, **settings}
        return self.run(self.model, self.data if data is None else data, **settings)

    def same(self, what: str, got: Any, expected: Any, *, bits: bool = False) -> None:
        """Two sets of activations are equal, to the bit or up to rounding."""
        for site in expected:
            left, right = got[site], expected[site]
            if left.shape != right.shape or left.dtype != right.dtype:
                raise AssertionError(f"{what}: {site} is {left.dtype} {list(left.shape)}, expected {right.dtype} {list(right.shape)}.")
            if bits and not torch.equal(left, right):
                raise AssertionError(f"{what}: {site} differs by {_gap(left, right):.3g}, expected the same bits.")
            if not torch.allclose(left, right, rtol=self.atol, atol=self.atol):
                raise AssertionError(f"{what}: {site} differs by {_gap(left, right):.3g}, more than {self.atol:g}.")

    def token_rules(self) -> None:
        """Every rule equals its definition."""
        rules = ("last", "first", "mean", "max", "all", "-2", "1:") if self._has_tokens() else ("last",)
        for rule in rules:
            expected = naive_capture(self.model, self.data, sites=self.sites, tokens=rule)
            self.same(f"token rule {rule!r}, batched against one at a time", self.capture(tokens=rule), expected)

    def _has_tokens(self) -> bool:
        return not isinstance(self.data, torch.Tensor) or self.data.ndim != 2

    def padding_side(self) -> None:
        """A tokenizer that pads elsewhere changes nothing."""
        tokenizer = self.model.tokenizer
        if tokenizer is None:
            return
        side = tokenizer.padding_side
        try:
            tokenizer.padding_side = "right"
            right = self.capture()
            tokenizer.padding_side = "left"
            self.same("tokenizer.padding_side left against right", self.capture(), _tensors(right), bits=True)
        finally:
            tokenizer.padding_side = side

    def order(self) -> None:
        """Rows come back in the order of the data."""
        backwards = self.data.flip(0) if isinstance(self.data, torch.Tensor) else list(self.data)[::-1]
        expected = {site: tensor.flip(0) for site, tensor in _tensors(self.capture()).items()}
        self.same("data in reverse order", self.capture(backwards), expected)

    def early_stop(self) -> None:
        """One site alone equals all together."""
        together = self.capture()
        for site in self.sites:
            self.same(f"{site} alone against all sites", self.capture(sites=[site]), {site: together[site]})

    def other_hooks(self) -> None:
        """A change that somebody else's hook makes to the first site is captured, and that hook stays."""
        from transect.sites import resolve_sites

        place = resolve_sites(self.model.structure, self.sites[0])[0]
        module = self.model.module.get_submodule(place.module)
        calls = 0

        def double(_module: nn.Module, _args: Any, output: Any) -> Any:
            nonlocal calls
            calls += 1
            return output * 2 if isinstance(output, torch.Tensor) else (output[0] * 2, *output[1:])

        before = self.capture(sites=[place.name])[place.name]
        with module.register_forward_hook(double):
            doubled = self.capture(sites=[place.name])
            if calls == 0 or double not in module._forward_hooks.values():
                raise AssertionError(f"another hook at {place.name} was called {calls} times and must stay; it was lost.")
        self.same("under another hook that doubles the output", doubled, {place.name: before * 2})

    def final_norm(self) -> None:
        """The last block's site is before the final norm, the final norm's site after it."""
        structure = self.model.structure
        last = f"layers[{len(structure.blocks) - 1}]"
        if structure.final_norm is None or last not in self.sites or "final_norm" not in self.sites:
            return
        acts = self.capture()
        with torch.no_grad():
            normed = self.model.module.get_submodule(structure.final_norm)(acts[last].to(self.model.device)).to("cpu")
        self.same("final_norm against the norm of the last block", acts, {"final_norm": normed})

    def store(self) -> None:
        """Disk and memory hold the same bits; an interrupted store goes on and ends with them too."""
        expected = _tensors(self.capture())
        with tempfile.TemporaryDirectory() as folder:
            whole, broken = Path(folder) / "whole", Path(folder) / "broken"
            self.same("a store against memory", self.capture(store=whole), expected, bits=True)
            self.same("a store opened again against memory", Activations.open(whole), expected, bits=True)
            with self.no_trace("an interrupted capture"):
                self._interrupt(store=broken)
            self.same("an interrupted store that went on against memory", self.capture(store=broken), expected, bits=True)

    def interruption(self) -> None:
        """Ctrl-C in the middle of a pass leaves no trace."""
        with self.no_trace("Ctrl-C in the middle of a pass"):
            self._interrupt()

    def _interrupt(self, **settings: Any) -> None:
        """Ctrl-C when the deepest site runs for the third time: after the first pass over a sample and one batch."""
        from transect.sites import resolve_sites

        place = resolve_sites(self.model.structure, self.sites[-1])[0]
        calls = 0

        def interrupt(*_: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == 3:
                raise KeyboardInterrupt

        with self.model.module.get_submodule(place.module).register_forward_hook(interrupt):
            try:
                self.capture(**settings)
            except KeyboardInterrupt:
                return
        raise AssertionError(f"{calls} passes were run, too few to interrupt: Ctrl-C did not come through, or the data is one batch.")

    def training_mode(self) -> None:
        """Modules found in training mode are run in evaluation mode, and are in training mode afterwards."""
        flags = {module: module.training for module in self.model.module.modules()}
        expected = _tensors(self.capture())
        try:
            for module in flags:
                module.training = True
            with self.no_trace("a capture of a model in training mode"):
                acts = self.capture()
            self.same("a model in training mode against evaluation mode", acts, expected)
        finally:
            for module, flag in flags.items():
                module.training = flag

    @contextmanager
    def no_trace(self, what: str) -> Iterator[None]:
        """Whatever happens inside, the model and torch's global state are afterwards as before."""
        before = _state(self.model.module)
        yield
        after = _state(self.model.module)
        changed = [name for name in before.keys() | after.keys() if not _equal(before.get(name), after.get(name))]
        if changed:
            raise AssertionError(f"{what} left a trace: {', '.join(sorted(changed)[:8])} changed.")


def _tensors(acts: Activations) -> dict[str, torch.Tensor]:
    return {site: acts[site] for site in acts.sites}


def _gap(left: torch.Tensor, right: torch.Tensor) -> float:
    return float((left.double() - right.double()).abs().max())


def _state(module: nn.Module) -> dict[str, Any]:
    """Everything that a capture must leave alone, by name."""
    state: dict[str, Any] = {
        "the random state": torch.get_rng_state(),
        "the gradient mode": torch.is_grad_enabled(),
        "the default dtype": torch.get_default_dtype(),
    }
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        state[f"tensor {name}"] = tensor.detach().clone()
        state[f"identity of tensor {name}"] = id(tensor)
    for path, child in module.named_modules():
        for key, value in vars(child).items():
            if key.endswith("_hooks") or "_hooks_with" in key or "_hooks_always" in key:
                state[f"{path or '(top)'}.{key}"] = tuple(value.items()) if isinstance(value, dict) else value
            elif isinstance(value, bool | int | float | str | None):
                state[f"{path or '(top)'}.{key}"] = value
    return state


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        # As bytes, so that NaN equals itself.
        return left.dtype == right.dtype and left.shape == right.shape and bytes(_raw(left)) == bytes(_raw(right))
    return type(left) is type(right) and left == right


def _raw(tensor: torch.Tensor) -> memoryview:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
