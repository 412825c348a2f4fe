"""The sweep: every site, strength and fold from one factorisation per site; and the same for resamples and single fits.

To choose for a fold without it, `Inside` asks for fits that leave out a part of the other folds too: k (k - 1) / 2 more for k folds.

At each site the rows are centred and divided by one number, the root mean square of their entries, so that a strength means the
same at every site; the readouts are of the activations themselves again. All folds and strengths of a site, and the fits on all
rows, are one batch of problems (see `transect.probes.problems`).
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from transect.errors import InputError
from transect.linear import Readout
from transect.probes._newton import forward
from transect.probes._rotation import Rotation
from transect.probes.fitter import Fitter, readout_of
from transect.probes.problems import Problems, Solution


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Sweep:
    """Fits of one fitter at every site, strength and fold.

    Args:
        sites: ``s`` names, as they came.
        strengths: ``c`` values of the fitter's own setting, for rows scaled to a root mean square of one; one None for a fitter
            that has none.
        penalties: ``c`` numbers that grow with regularization.
        scores: ``[s, c, n]`` (``[s, c, n, k]`` for more than two classes) scores of each row by the fit that had not seen it; 0
            for rows that took no part.
        readouts: for each site, the fits on all rows that took part, one for each strength.
        unconverged: how many fits did not meet their tolerance.
        inside: ``[s, c, f, p]`` what `Inside` measured on part p by the fit that saw neither it nor fold f; NaN where p lies in f, where
            such a fit lacks a class, or where it is undefined. None where nothing was asked.
    """

    sites: tuple[str, ...]
    strengths: tuple[float | None, ...]
    penalties: tuple[float, ...]
    scores: np.ndarray
    readouts: Mapping[str, tuple[Readout, ...]]
    unconverged: int
    inside: np.ndarray | None = None

    def readout(self, site: str, strength: int) -> Readout:
        """The fit on all rows that took part, at a site and the index of a strength."""
        return self.readouts[site][strength]

    def regularization(self, strength: int) -> float | None:
        """The fitter's own setting at the index of a strength; None for a fitter that has none."""
        return self.strengths[strength]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Inside:
    """What to measure inside the rows that a fold leaves, so that a choice for the fold can be made without it.

    Args:
        parts: ``[n]`` whole numbers, no part in more than one fold: the folds themselves, where there are more than two.
        measure: from scores ``[c, m]`` (``[c, m, k]``) and the indices of their rows ``[m]`` to numbers ``[c]``.
    """

    parts: np.ndarray
    measure: Callable[[np.ndarray, np.ndarray], np.ndarray]


def sweep(
    activations: Mapping[str, torch.Tensor],
    targets: Any,
    *,
    folds: Any,
    fitter: Fitter,
    classes: Sequence[Any] | None,
    strengths: Sequence[float] | None = None,
    inside: Inside | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Sweep:
    """Fit at every site, strength and fold, and on all rows.

    Args:
        activations: site name to ``[n, d]``.
        targets: ``[n]`` class indices, or numbers.
        folds: ``[n]`` the fold that holds each row out; -1 for rows that take no part.
        fitter: what to fit; its settings other than the strength are kept.
        classes: the labels, in the order of the indices; None for numbers.
        strengths: values of the fitter's strength to try; its own `strengths` when None.
        inside: what to measure for each fold on the others, by fits that did not see it; None for nothing.
        advance: called once for every site that is done.

    Raises:
        InputError: shapes that do not fit, fewer than two folds, or a fold without which a class is missing.

    Examples:
        >>> x = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
        >>> from transect.probes import Logistic
        >>> found = sweep({"a": x}, (x[:, 0] > 0).long(), folds=np.arange(60) % 3, fitter=Logistic(), classes=(0, 1))
        >>> found.scores.shape, len(found.readouts["a"])
        ((1, 9, 60), 9)
    """
    plan = _Plan.of(targets, folds, fitter, classes, strengths, inside)
    used = torch.from_numpy(plan.rows)
    outputs = len(classes) if classes is not None and len(classes) > 2 else 1
    scores = np.zeros((len(activations), len(plan.strengths), len(plan.folds), outputs))
    readouts, unconverged, measured = {}, 0, []
    for index, (site, tensor) in enumerate(activations.items()):
        if tensor.ndim != 2 or len(tensor) != len(plan.folds):
            raise InputError(f"{site} must be [n, d] with {len(plan.folds)} rows like the labels, got {list(tensor.shape)}.")
        x = tensor[used.to(tensor.device)]
        finite = torch.isfinite(x).all(1)
        if not finite.all():
            bad = int(used[(~finite).nonzero()[0].cpu()])
            raise InputError(
                f"{site} holds NaN or inf in row {bad} ({int((~finite).sum())} such rows); capture again in a wider dtype, or drop them."
            )
        rotation = Rotation.of(x)
        problems = plan.problems(rotation)
        solution = _solve(fitter, rotation, problems)
        unconverged += int((~solution.converged).sum())
        margins = plan.by_mask(forward(rotation.z, solution.weight) + solution.intercept.unsqueeze(-1))
        scores[index][:, plan.rows] = plan.out_of_fold(margins)
        if inside is not None:
            measured.append(plan.measured(margins, inside))
        last = len(solution.weight) - len(plan.strengths)
        readouts[site] = tuple(
            readout_of(fitter, rotation, solution, last + at, labels=classes, dtype=x.dtype, settings=_settings(fitter, strength))
            for at, strength in enumerate(plan.strengths)
        )
        advance()
    penalties = tuple(0.0 if strength is None else fitter.penalty(strength) for strength in plan.strengths)
    return Sweep(
        sites=tuple(activations),
        strengths=plan.strengths,
        penalties=penalties,
        scores=scores.squeeze(-1) if outputs == 1 else scores,
        readouts=readouts,
        unconverged=unconverged,
        inside=np.stack(measured) if measured else None,
    )


def fit_readout(fitter: Fitter, x: torch.Tensor, targets: Any, *, classes: Sequence[Any] | None, regularization: float | None) -> Readout:
    """One fit on all rows ``x [n, d]``, at a strength as the sweep means it: for rows scaled to a root mean square of one."""
    rotation = Rotation.of(x)
    codes = _codes(targets, classes, x.device)
    problems = _problems(rotation, codes.unsqueeze(0), None, regularization, classes)
    solution = _solve(fitter, rotation, problems)
    return readout_of(fitter, rotation, solution, 0, labels=classes, dtype=x.dtype, settings=_settings(fitter, regularization))


def resampled_scores(
    fitter: Fitter,
    x: torch.Tensor,
    targets: Any,
    x_eval: torch.Tensor,
    *,
    regularization: float | None,
    classes: Sequence[Any] | None,
    weights: Any = None,
) -> np.ndarray:
    """Fit the same rows under many labellings or many row weights, and score other rows with every fit.

    Args:
        fitter: what to fit.
        x: ``[n, d]`` rows to fit.
        targets: ``[n, b]`` labels of each fit.
        x_eval: ``[m, d]`` rows to score.
        regularization: the strength, as the sweep means it.
        classes: the labels, in the order of the indices; None for numbers.
        weights: ``[n, b]`` how much each row counts in each fit; None counts each once.

    Returns:
        Scores ``[m, b]``, or ``[m, b, k]`` for more than two classes.
    """
    rotation = Rotation.of(x)
    codes = _codes(np.ascontiguousarray(np.asarray(targets).T), classes, x.device)
    counted = None if weights is None else torch.from_numpy(np.ascontiguousarray(np.asarray(weights, dtype=np.float64).T)).to(x.device)
    solution = _solve(fitter, rotation, _problems(rotation, codes, counted, regularization, classes))
    rows = ((x_eval.to(rotation.z.dtype) - rotation.mean) / rotation.scale) @ rotation.basis
    scores = (forward(rows, solution.weight) + solution.intercept.unsqueeze(-1)).permute(2, 0, 1).cpu().numpy()
    return scores[..., 0] if scores.shape[-1] == 1 else scores


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Inner:
    """A fit without a fold and without a part of another one.

    Args:
        mask: its place among the masks of the plan.
        uses: (fold, part) by their indices: the part is measured for the choice that is made for the fold.
    """

    mask: int
    uses: tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Plan:
    """Which problems a sweep solves at each site: strengths times masks (folds, then what `Inside` asks for), then the strengths on all rows."""

    codes: np.ndarray
    folds: np.ndarray
    rows: np.ndarray
    names: np.ndarray
    strengths: tuple[float | None, ...]
    classes: Sequence[Any] | None
    masks: np.ndarray
    part_of: np.ndarray
    inner: tuple[_Inner, ...]

    @classmethod
    def of(
        cls,
        targets: Any,
        folds: Any,
        fitter: Fitter,
        classes: Sequence[Any] | None,
        strengths: Sequence[float] | None,
        inside: Inside | None,
    ) -> "_Plan":
        codes, fold_of = _plain(targets), _plain(folds)
        if codes.ndim != 1 or codes.shape != fold_of.shape:
            raise InputError(f"targets and folds must be [n] of one length, got {list(codes.shape)} and {list(fold_of.shape)}.")
        rows = np.flatnonzero(fold_of >= 0)
        names, place = np.unique(fold_of[rows], return_inverse=True)
        if len(names) < 2:
            raise InputError(f"a sweep needs at least two folds, got {len(names)}.")
        if classes is not None:
            for name in names:
                seen = np.unique(codes[(fold_of >= 0) & (fold_of != name)])
                if len(seen) < len(classes):
                    missing = [classes[code] for code in range(len(classes)) if code not in seen]
                    raise InputError(
                        f"without fold {name} no row has the label {missing[0]!r}; use fewer folds, or bring more groups of that label."
                    )
        masks, inner, part_of = [place != fold for fold in range(len(names))], (), place
        if inside is not None:
            if inside.parts.shape != fold_of.shape:
                raise InputError(f"parts must be [n] like the folds, got {list(inside.parts.shape)} and {list(fold_of.shape)}.")
            part_of = np.unique(inside.parts[rows], return_inverse=True)[1]
            inner = _inner(masks, place, part_of, None if classes is None else codes[rows])
        own: tuple[float | None, ...] = tuple(fitter.strengths if strengths is None else strengths) if fitter.strength else (None,)
        return cls(
            codes=codes, folds=fold_of, rows=rows, names=names, strengths=own, classes=classes,
            masks=np.stack(masks), part_of=part_of, inner=inner,
        )  # fmt: skip

    def problems(self, rotation: Rotation) -> Problems:
        device, working = rotation.z.device, rotation.z.dtype
        masks = torch.from_numpy(self.masks).to(device, working)
        n_strengths = len(self.strengths)
        weight = torch.cat([masks.repeat(n_strengths, 1), torch.ones_like(masks[:1]).expand(n_strengths, -1)])
        strength = None
        if self.strengths[0] is not None:
            each = torch.tensor(self.strengths, dtype=working, device=device)
            strength = torch.cat([each.repeat_interleave(len(masks)), each])
        codes = _codes(self.codes[self.rows], self.classes, device).expand(len(weight), -1)
        return Problems(targets=codes, weight=weight, strength=strength, classes=0 if self.classes is None else len(self.classes))

    def by_mask(self, margins: torch.Tensor) -> torch.Tensor:
        """``[c, masks, k, n]`` of margins ``[b, k, n]``, without the fits on all rows."""
        n_strengths, n_masks = len(self.strengths), len(self.masks)
        return margins[: n_strengths * n_masks].view(n_strengths, n_masks, *margins.shape[1:])

    def out_of_fold(self, margins: torch.Tensor) -> np.ndarray:
        """``[c, n, k]`` the score of every row by the fit that had not seen it, from margins by mask."""
        place = torch.from_numpy(np.searchsorted(self.names, self.folds[self.rows])).to(margins.device)
        picked = margins[:, place, :, torch.arange(len(place), device=margins.device)]  # [n, c, k]: advanced indices come first
        return picked.permute(1, 0, 2).cpu().numpy()

    def measured(self, margins: torch.Tensor, inside: Inside) -> np.ndarray:
        """``[c, f, p]`` what is measured on part p by the fits that saw neither it nor fold f, from margins by mask."""
        found = np.full((len(margins), len(self.names), int(self.part_of.max()) + 1), np.nan)
        for fit in self.inner:
            scores = margins[:, fit.mask].mT.cpu().numpy()
            scores = scores[..., 0] if scores.shape[2] == 1 else scores
            for fold, part in fit.uses:
                rows = np.flatnonzero(self.part_of == part)
                found[:, fold, part] = inside.measure(scores[:, rows], self.rows[rows])
        return found


def _inner(masks: list[np.ndarray], place: np.ndarray, part_of: np.ndarray, codes: np.ndarray | None) -> tuple[_Inner, ...]:
    """The fits that `Inside` asks for, each once; their masks are added to those of the folds."""
    n_classes = 0 if codes is None else len(np.unique(codes))
    found: dict[bytes, tuple[int, list[tuple[int, int]]]] = {}
    for fold in range(int(place.max()) + 1):
        for part in np.unique(part_of[place != fold]).tolist():
            mask = (place != fold) & (part_of != part)
            if not mask.any() or (codes is not None and len(np.unique(codes[mask])) < n_classes):
                continue
            if mask.tobytes() not in found:
                found[mask.tobytes()] = (len(masks), [])
                masks.append(mask)
            found[mask.tobytes()][1].append((fold, part))
    return tuple(_Inner(mask=mask, uses=tuple(uses)) for mask, uses in found.values())


def _problems(
    rotation: Rotation, codes: torch.Tensor, weight: torch.Tensor | None, regularization: float | None, classes: Sequence[Any] | None
) -> Problems:
    working = rotation.z.dtype
    counted = torch.ones(codes.shape, dtype=working, device=codes.device) if weight is None else weight.to(working)
    strength = None if regularization is None else torch.full((len(codes),), regularization, dtype=working, device=codes.device)
    return Problems(targets=codes, weight=counted, strength=strength, classes=0 if classes is None else len(classes))


def _solve(fitter: Fitter, rotation: Rotation, problems: Problems) -> Solution:
    return Solution.join([fitter.solve(rotation, chunk) for chunk in problems.chunks()])


def _codes(targets: Any, classes: Sequence[Any] | None, device: torch.device) -> torch.Tensor:
    kind = np.float64 if classes is None else np.int64
    return torch.from_numpy(np.ascontiguousarray(_plain(targets), dtype=kind)).to(device)


def _plain(values: Any) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


def _settings(fitter: Fitter, strength: float | None) -> dict[str, Any]:
    """A fitter's settings, with the strength that was used."""
    settings = {name: value for name, value in fitter.get_params().items() if isinstance(value, str | int | float | bool | None)}
    return settings if fitter.strength is None else settings | {fitter.strength: strength}
