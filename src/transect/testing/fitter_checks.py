"""The contracts of fitters and of the readouts they make, as checks that any fitter can be put through, ours or not."""

import dataclasses
import importlib
import inspect
import pkgutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils import get_tags

import transect
from transect.errors import InputError, MismatchError
from transect.linear import Readout
from transect.probes import Fitter
from transect.probes.naive import Naive
from transect.testing._assertions import must, refused

Twin = Callable[[np.ndarray, np.ndarray], Naive]


def all_fitters() -> list[type[Fitter]]:
    """Every public fitter of the package, found by walking it.

    Examples:
        >>> [fitter.__name__ for fitter in all_fitters()]
        ['LDA', 'Logistic', 'MeanDifference', 'Ridge']
    """
    found: set[type[Fitter]] = set()
    for module in pkgutil.walk_packages(transect.__path__, "transect."):
        if not module.ispkg:
            continue
        package = importlib.import_module(module.name)
        public = [getattr(package, name) for name in getattr(package, "__all__", [])]
        found |= {value for value in public if inspect.isclass(value) and issubclass(value, Fitter) and not inspect.isabstract(value)}
    return sorted(found, key=lambda fitter: fitter.__name__)


def check_fitter(fitter: Fitter, *, twin: Twin | None = None, rotates: bool = True, rtol: float = 1e-5) -> None:
    """Check that a fitter keeps the contracts.

    1. Purity: data, settings, random state, gradient mode and default dtype are as before; fitting again gives the same bits;
       the order of the rows does not matter; a weight of 2 is two rows; arrays and tensors give the same.
    2. Twin: the fit is that of the slow definition.
    3. Planted truth: it finds a planted direction, says chance on shuffled labels, and does not beat the one who planted it.
    4. Algebra: shifted rows, and rotated ones where claimed, give the shifted and rotated answer.
    5. Edges: NaN, inf, no rows, one class and another width are named errors; fewer rows than columns, a constant, a duplicated
       and a 1000 times larger column give finite answers; dtypes are kept.

    Args:
        fitter: an unfitted fitter; it is cloned, never fitted itself.
        twin: the slow definition, from float64 rows and class indices (or numbers) to weights and biases.
        rotates: whether the fitter claims that rotated rows give the rotated answer.
        rtol: the largest relative difference of scores that should be equal.

    Raises:
        AssertionError: a clause does not hold; the message says which and by how much.

    Examples:
        >>> from transect.probes import MeanDifference
        >>> check_fitter(MeanDifference())
    """
    check = _Check(fitter=fitter, numbers=get_tags(fitter).estimator_type == "regressor", rtol=rtol)
    check.purity()
    check.repeats()
    check.order_and_weights()
    check.kinds()
    if twin is not None:
        check.twin(twin)
    check.planted()
    check.chance()
    check.algebra(rotates=rotates)
    check.refusals()
    check.odd_data()
    check_readout(check.fit(*check.data()).readout_)


def check_readout(readout: Readout) -> None:
    """Check that a readout is what it says: affine, frozen, the same for a batch and for its rows, and in a file.

    Raises:
        AssertionError: a clause does not hold; the message says which.

    Examples:
        >>> check_readout(Readout(weight=torch.ones(1, 3), bias=torch.zeros(1), link="logistic", classes=(0, 1)))
    """
    x = torch.randn(6, readout.width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    before = x.clone()
    scores = readout.scores(x)
    must(torch.equal(x, before), "readout: scoring changed its input")
    must(scores.isfinite().all(), "readout: scores of finite rows are not finite")
    rows = torch.stack([readout.scores(row) for row in x])
    must(torch.allclose(rows, scores, rtol=1e-6, atol=1e-9), "readout: a batch scores differently from its rows")
    middle = readout.scores(0.3 * x[:3] + 0.7 * x[3:])
    must(torch.allclose(middle, 0.3 * scores[:3] + 0.7 * scores[3:], rtol=1e-5, atol=1e-6), "readout: scores are not affine in the rows")
    must(len(readout.predict(x)) == len(x), "readout: not one prediction per row")
    if readout.link != "identity":
        chance = readout.probabilities(x)
        rounding = 8 * torch.finfo(chance.dtype).eps
        must(bool(((chance.sum(-1) - 1).abs() <= rounding).all()), "readout: probabilities do not sum to one")
        best = [readout.classes[index] for index in chance.argmax(-1).tolist()] if readout.classes else []
        must(best == readout.predict(x), "readout: the most probable class is not the predicted one")
    try:
        readout.bias = readout.bias  # type: ignore[misc]
    except dataclasses.FrozenInstanceError:
        pass
    else:
        raise AssertionError("readout: it is not frozen")
    with refused("readout: it scores rows of another width", MismatchError):
        readout.scores(x.new_zeros(2, readout.width + 1))
    with tempfile.TemporaryDirectory() as folder:
        readout.save(Path(folder) / "readout.safetensors")
        must(Readout.load(Path(folder) / "readout.safetensors").equals(readout), "readout: a saved one loads back different")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Check:
    """One fitter under examination."""

    fitter: Fitter
    numbers: bool
    rtol: float

    def data(self, *, n: int = 120, d: int = 6, signal: float = 2.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Rows with a planted direction (the first axis), and labels, or numbers along it."""
        rng = np.random.default_rng(seed)
        codes = np.arange(n) % 2
        x = rng.normal(size=(n, d))
        if self.numbers:
            return x, signal * x[:, 0] + rng.normal(size=n)
        x[:, 0] += signal * (codes - 0.5)
        return x, codes

    def fit(self, x: Any, y: Any, weight: Any = None) -> Fitter:
        return self.fresh().fit(x, y, weight)

    def fresh(self) -> Fitter:
        copy = clone(self.fitter)
        if not isinstance(copy, Fitter):
            raise TypeError(f"expected a Fitter, got {type(copy).__name__}.")
        return copy

    def scores(self, fitted: Fitter, x: np.ndarray) -> np.ndarray:
        return fitted.readout_.scores(torch.from_numpy(x)).numpy()

    def near(self, one: np.ndarray, other: np.ndarray, clause: str) -> None:
        off = np.abs(one - other).max() / max(np.abs(other).max(), 1e-300)
        must(off <= self.rtol, f"{clause} (scores differ by {off:.1e} relative)")

    def purity(self) -> None:
        x, y = self.data()
        weight = np.ones(len(x))
        copies = [part.copy() for part in (x, y, weight)]
        fitter = self.fresh()
        settings = fitter.get_params()
        state, old_state = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002 - it must be left alone, so it is looked at
        modes = torch.is_grad_enabled(), torch.get_default_dtype()
        returned = fitter.fit(x, y, weight)
        must(returned is fitter, "purity: fit does not return the fitter")
        fitter.predict(x)
        for name, part, copy in zip(("X", "y", "sample_weight"), (x, y, weight), copies, strict=True):
            must(np.array_equal(part, copy), f"purity: fitting changed {name}")
        must(fitter.get_params() == settings, "purity: fitting changed the settings")
        must(torch.equal(state, torch.get_rng_state()), "purity: torch's random state was touched")
        now = np.random.get_state()  # noqa: NPY002
        must(all(np.array_equal(a, b) for a, b in zip(old_state, now, strict=True)), "purity: numpy's random state was touched")
        must(modes == (torch.is_grad_enabled(), torch.get_default_dtype()), "purity: gradient mode or default dtype was changed")

    def repeats(self) -> None:
        x, y = self.data()
        once, fitter = self.fit(x, y), self.fresh()
        fitter.fit(*self.data(seed=1, d=4))
        twice = fitter.fit(x, y)
        must(torch.equal(once.readout_.weight, twice.readout_.weight), "purity: fitting again gives other numbers")
        must(torch.equal(once.readout_.bias, twice.readout_.bias), "purity: fitting again gives another bias")

    def order_and_weights(self) -> None:
        x, y = self.data()
        plain = self.scores(self.fit(x, y), x)
        order = np.random.default_rng(1).permutation(len(x))
        self.near(self.scores(self.fit(x[order], y[order]), x), plain, "purity: the order of the rows matters")
        counts = np.arange(len(x)) % 3 + 1
        counted = self.scores(self.fit(x, y, counts.astype(float)), x)
        self.near(counted, self.scores(self.fit(np.repeat(x, counts, 0), np.repeat(y, counts)), x), "purity: a weight of 2 is not two rows")

    def kinds(self) -> None:
        x, y = self.data()
        array, tensor = self.fit(x, y), self.fit(torch.from_numpy(x), torch.from_numpy(y))
        self.near(self.scores(tensor, x), self.scores(array, x), "purity: tensors and arrays give different fits")
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            fitted = self.fit(torch.from_numpy(x).to(dtype), torch.from_numpy(y))
            kept = torch.promote_types(dtype, torch.float32)
            must(fitted.readout_.weight.dtype == kept, f"edges: rows in {dtype} give weights in {fitted.readout_.weight.dtype}")
            must(isinstance(fitted.predict(torch.from_numpy(x).to(dtype)), torch.Tensor), "edges: tensors in, but no tensor out")

    def twin(self, twin: Twin) -> None:
        x, y = self.data()
        slow = twin(x, y)
        self.near(self.scores(self.fit(x, y), x), (x @ slow.weight.T + slow.bias)[:, 0], "twin: it is not the slow definition")

    def planted(self) -> None:
        x, y = self.data(n=400)
        fitted = self.fit(x, y)
        weight = fitted.readout_.weight[0].double()
        cosine = float(weight[0] / weight.norm())
        must(cosine > 0.9, f"planted truth: the planted direction is not found (cosine {cosine:.2f})")
        new, truth = self.data(n=2000, seed=2)
        found, oracle = _rank(self.scores(fitted, new), truth), _rank(new[:, 0], truth)
        must(found > oracle - 0.05, f"planted truth: rank agreement {found:.3f}, the oracle has {oracle:.3f}")
        must(found < oracle + 0.01, f"planted truth: it beats the oracle, {found:.3f} against {oracle:.3f}; does it see the test labels?")

    def chance(self) -> None:
        x, y = self.data(n=200)
        new, truth = self.data(n=400, seed=2)
        rng = np.random.default_rng(3)
        found = [_rank(self.scores(self.fit(x, rng.permutation(y)), new), rng.permutation(truth)) for _ in range(8)]
        bound = 4 * 0.5 * np.sqrt(4 / (3 * len(new) * len(found)))  # four standard errors of the mean of so many rankings
        off = float(np.mean(found) - 0.5)
        must(abs(off) < bound, f"planted truth: shuffled labels are ranked at {off + 0.5:.3f}, chance is 0.5 +- {bound:.3f}")

    def algebra(self, *, rotates: bool) -> None:
        x, y = self.data()
        plain = self.scores(self.fit(x, y), x)
        moved = x + np.linspace(-3, 3, x.shape[1])
        self.near(self.scores(self.fit(moved, y), moved), plain, "algebra: shifted rows do not give the shifted answer")
        if rotates:
            turn = np.linalg.qr(np.random.default_rng(4).normal(size=(x.shape[1], x.shape[1])))[0]
            self.near(self.scores(self.fit(x @ turn, y), x @ turn), plain, "algebra: rotated rows do not give the rotated answer")

    def refusals(self) -> None:
        x, y = self.data()
        for value, name in ((np.nan, "NaN"), (np.inf, "inf")):
            bad = x.copy()
            bad[7, 2] = value
            for rows in (bad, torch.from_numpy(bad)):
                with refused(f"edges: {name} in X is accepted", InputError, says="row 7"):
                    self.fit(rows, y)
        with refused("edges: no rows are accepted", InputError):
            self.fit(x[:0], y[:0])
        with refused("edges: one row too few in y is accepted", InputError):
            self.fit(x, y[1:])
        lost = y.astype(float)
        lost[5] = np.nan
        with refused("edges: NaN in y is accepted", InputError, says="row 5"):
            self.fit(x, lost)
        if not self.numbers:
            with refused("edges: one class only is accepted", InputError, says="class"):
                self.fit(x, np.zeros(len(x), dtype=int))
        fitted = self.fit(x, y)
        for rows in (x[:, 1:], torch.from_numpy(x[:, 1:])):
            with refused("edges: rows of another width are predicted", InputError):
                fitted.predict(rows)

    def odd_data(self) -> None:
        for name, change in _ODD.items():
            x, y = self.data()
            x, y = change(x, y)
            fitted = self.fit(x, y)
            must(np.isfinite(self.scores(fitted, x)).all(), f"edges: {name}: scores are not finite")


def _constant(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x[:, 3] = 7.0
    return x, y


def _duplicated(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x[:, 3] = x[:, 4]
    return x, y


def _large(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x[:, 3] *= 1000
    return x, y


def _wide(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.hstack([x[:12], np.random.default_rng(5).normal(size=(12, 40))]), y[:12]


_ODD = {"a constant column": _constant, "a duplicated column": _duplicated, "a column 1000 times larger": _large, "n < d": _wide}


def _rank(scores: np.ndarray, truth: np.ndarray) -> float:
    """How often a random row with more of the truth has the higher score: the AUROC for two classes, 0.5 at chance."""
    high = truth > np.median(truth) if len(np.unique(truth)) > 2 else truth == truth.max()
    order = scores.argsort().argsort() + 1
    positives = int(high.sum())
    return float((order[high].sum() - positives * (positives + 1) / 2) / (positives * (len(high) - positives)))
