"""The contract of sequence layers: every form is the definition, causal, the same cut or packed or padded, and the cache is honest."""

import copy
import importlib
import inspect
import pkgutil
from itertools import pairwise
from typing import Any

import torch

import transect
from transect.errors import InputError, MismatchError
from transect.mixers.layers import Inside, MixerCache, SequenceLayer
from transect.testing._assertions import must, refused

_TOKENS = 13


def all_mixer_layers() -> list[type[SequenceLayer]]:
    """Every public sequence layer of the package, found by walking it.

    Examples:
        >>> {"DeltaNet", "Mamba2"} <= {layer.__name__ for layer in all_mixer_layers()}
        True
    """
    found: set[type[SequenceLayer]] = set()
    for module in pkgutil.walk_packages(transect.__path__, "transect."):
        if module.ispkg:
            package = importlib.import_module(module.name)
            public = [getattr(package, name) for name in getattr(package, "__all__", [])]
            found |= {
                value for value in public if inspect.isclass(value) and issubclass(value, SequenceLayer) and not inspect.isabstract(value)
            }
    return sorted(found, key=lambda layer: layer.__name__)


def check_mixer_layer(layer: SequenceLayer) -> None:
    """Check that a sequence layer keeps the contract.

    1. Twin: every form gives the outputs and gradients (of input and parameters) of ``form="naive"``, to 1e-12 in float64 and 1e-5 in float32.
    2. Causal: later tokens change no bit of earlier outputs, nor of the gradients there.
    3. Cut anywhere with a cache, also token by token, it gives the same.
    4. Rows padded left, right or inside, and sequences packed, give what each gives alone; NaN in one stays in it.
    5. Cache: a snapshot restores, rows reorder, and one of another batch or layer is refused.
    6. Inside: the effective matrix and the states explain the outputs. 16-bit weights work.

    Args:
        layer: any; a float64 copy is examined, with its own weights.

    Raises:
        AssertionError: a clause does not hold; the message says which and by how much.

    Examples:
        >>> from transect import mixers
        >>> check_mixer_layer(mixers.DeltaNet(hidden_size=8, num_heads=2))
    """
    check = _Check(copy.deepcopy(layer).double())
    check.twin()
    check.causal()
    check.cut()
    check.apart()
    check.cache()
    check.inside()
    check.low_precision()


class _Check:
    """One layer under examination."""

    def __init__(self, layer: SequenceLayer) -> None:
        self.layer = layer

    def x(self, rows: int = 2, tokens: int = _TOKENS, seed: int = 0) -> torch.Tensor:
        draw = torch.Generator().manual_seed(seed)
        return torch.randn(rows, tokens, self.layer.hidden_size, generator=draw, dtype=torch.float64)

    def run(self, x: torch.Tensor, **settings: Any) -> torch.Tensor:
        with torch.no_grad():
            y = self.layer(x, **settings)
        if not isinstance(y, torch.Tensor):
            raise AssertionError("the layer gives more than its output, without being asked")
        return y

    def near(self, one: torch.Tensor, other: torch.Tensor, clause: str, bound: float = 1e-12) -> None:
        must(one.shape == other.shape, f"{clause}: shapes {list(one.shape)} and {list(other.shape)}")
        off = float((one.double() - other.double()).abs().max() / other.double().abs().max().clamp_min(1e-30)) if one.numel() else 0.0
        must(off <= bound, f"{clause}: off by {off:.1e} of the largest, allowed {bound:.0e}")

    def grads(self, layer: SequenceLayer, x: torch.Tensor, form: str, until: int | None = None) -> dict[str, torch.Tensor]:
        leaf = x.clone().requires_grad_()
        y = layer(leaf, form=form)
        weight = torch.randn(y.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64).to(y.dtype)
        named = {"x": leaf, **dict(layer.named_parameters())}
        found = torch.autograd.grad((y * weight)[:, :until].sum(), list(named.values()), allow_unused=True)
        must(all(grad is not None for grad in found), "twin: a parameter has no gradient")
        return {"y": y.detach(), **{f"the gradient of {name}": grad for name, grad in zip(named, found, strict=True)}}

    def twin(self) -> None:
        x = self.x()
        narrow = copy.deepcopy(self.layer).float()
        wide = copy.deepcopy(narrow).double()
        for layer, truth_of, bound in ((self.layer, self.layer, 1e-12), (narrow, wide, 1e-5)):
            dtype = next(layer.parameters()).dtype
            truth = self.grads(truth_of, x.float().double() if dtype == torch.float32 else x, "naive")
            for form in sorted(set(self.layer.forms) - {"auto", "naive"}):
                for name, value in self.grads(layer, x.to(dtype), form).items():
                    self.near(value, truth[name], f"twin, {form}, {dtype}: {name}", bound)
        must(self.run(x[:, :0]).shape == (2, 0, self.layer.hidden_size), "twin: no tokens do not give no outputs")

    def causal(self) -> None:
        x = self.x()
        for form in sorted(set(self.layer.forms) & {"auto", "recurrent"}):
            changed = torch.cat([x[:, :7], 3 * self.x(seed=1)[:, 7:]], 1)
            one, two = (self.grads(self.layer, part, form, until=7) for part in (x, changed))
            must(torch.equal(one["y"][:, :7], two["y"][:, :7]), f"causal, {form}: outputs depend on later tokens")
            same = torch.equal(one["the gradient of x"][:, :7], two["the gradient of x"][:, :7])
            must(same and not one["the gradient of x"][:, 7:].any(), f"causal, {form}: gradients depend on later tokens")

    def cut(self) -> None:
        x = self.x()
        whole = self.run(x)
        for places in ((0, 1, _TOKENS), (0, 2, 5, _TOKENS), (0, 9, _TOKENS), tuple(range(_TOKENS + 1))):
            cache = MixerCache()
            pieces = [self.run(x[:, start:end], cache=cache) for start, end in pairwise(places)]
            self.near(torch.cat(pieces, 1), whole, f"cut at {places}")

    def apart(self) -> None:
        x = self.x(rows=3)
        masks = torch.ones(3, _TOKENS, dtype=torch.long)
        masks[0, :4], masks[1, 8:], masks[2, 3:6] = 0, 0, 0
        alone = [self.run(row[mask.bool()][None]) for row, mask in zip(x, masks, strict=True)]
        spoilt = x.masked_fill(masks[..., None] == 0, torch.nan)
        for given in (x, spoilt):
            y = self.run(given, attention_mask=masks)
            for row, mask, one, side in zip(y, masks, alone, ("left", "right", "inside"), strict=True):
                self.near(row[mask.bool()][None], one, f"padded {side}: not what the row gives alone")
                must(not row[~mask.bool()].any(), f"padded {side}: the output there is not zero")
        bounds = [0, 1, 1, 8, _TOKENS]
        packed = self.run(x[:1], cu_seqlens=bounds)
        self.near(
            packed, torch.cat([self.run(x[:1, start:end]) for start, end in pairwise(bounds)], 1), "packed: not what each gives alone"
        )
        bad = x[:1].clone()
        bad[:, 4] = torch.nan
        found = self.run(bad, cu_seqlens=bounds)
        same = torch.equal(found[:, :1], packed[:, :1]) and torch.equal(found[:, 8:], packed[:, 8:])
        must(same, "packed: NaN in one sequence changes another")
        cache = MixerCache()
        first = self.run(x, attention_mask=masks, cache=cache)
        must(torch.equal(first, y.nan_to_num()) or first.isfinite().all(), "padded: a cache changes the outputs")
        later = self.run(self.x(rows=3, seed=2), cache=cache)
        for i, mask in enumerate(masks):
            both = torch.cat([x[i][mask.bool()], self.x(rows=3, seed=2)[i]])[None]
            self.near(later[i : i + 1], self.run(both)[:, int(mask.sum()) :], "padded, then more tokens with the cache")

    def cache(self) -> None:
        x, more = self.x(), self.x(seed=1)
        cache = MixerCache()
        self.run(x, cache=cache)
        kept = cache.snapshot()
        first = self.run(more, cache=cache)
        cache.restore(kept)
        must(torch.equal(self.run(more, cache=cache), first), "cache: a restored snapshot does not give the same")
        cache.restore(kept)
        cache.reorder(torch.tensor([1, 0]))
        self.near(self.run(more.flip(0), cache=cache), first.flip(0), "cache: reordered rows do not give the reordered outputs")
        other = copy.deepcopy(self.layer)
        other.__class__ = type("Another", (type(self.layer),), {})
        for layer, rows, what in ((self.layer, 3, "batch"), (other, 2, "layer")):
            try:
                layer(self.x(rows=rows), cache=cache)
            except MismatchError:
                continue
            raise AssertionError(f"cache: one of another {what} is accepted")
        for settings in ({"attention_mask": torch.ones(2, 5)}, {"attention_mask": 2 * torch.ones(2, _TOKENS)}, {"cu_seqlens": [0, 5]}):
            try:
                self.layer(x, **settings)
            except InputError:
                continue
            raise AssertionError(f"edges: {next(iter(settings))} that does not fit is accepted")

    def inside(self) -> None:
        x = self.x()
        with torch.no_grad():
            y, inside = self.layer(x, return_inside=True)
            if not isinstance(inside, Inside):
                raise AssertionError("inside: asked for, and not given")
            must(torch.equal(y, self.run(x)), "inside: looking changes the output")
            if inside.op is None:
                with refused("inside: a matrix without an op", InputError, says="no such matrix"):
                    inside.effective_matrix()
                return
            matrix = inside.effective_matrix()
            self.near(
                (matrix @ inside.inputs["v"].transpose(1, 2)).transpose(1, 2), inside.o, "inside: the matrix does not make the outputs"
            )
            must(not matrix[:, :, 0, matrix.shape[3] // _TOKENS :].any(), "inside: the matrix is not causal")
            if inside.final_state is None:
                return
            states = inside.states()
            must(len(states) == _TOKENS, "inside: not one state for each token")
            self.near(states[-1], inside.final_state, "inside: the last state is not the final one")

    def low_precision(self) -> None:
        for dtype in (torch.bfloat16, torch.float16):
            y = copy.deepcopy(self.layer).to(dtype)(self.x().to(dtype))
            must(isinstance(y, torch.Tensor) and y.dtype == dtype and y.isfinite().all(), f"precision: {dtype} weights do not work")
