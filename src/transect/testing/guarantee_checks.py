"""The contracts of abstention, drift alarms and early stopping: promises kept over simulated draws, and refusals that name what is missing."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch

from transect.errors import InputError, SampleSizeError
from transect.testing._assertions import must, refused, untouched


class Abstains(Protocol):
    """What says which rows not to judge."""

    def abstains(self, activations: Any) -> Any:
        """``[m]`` of rows ``[m, d]``."""
        ...


class Reading(Protocol):
    """What a drift alarm knows."""

    alarm: bool


class Watches(Protocol):
    """What takes in a stream and says whether it drifted."""

    def update(self, values: Any, /) -> Any:
        """Take in the next rows, in order; gives its reading."""
        ...


def check_abstention(fit: Callable[..., Abstains], *, draws: int = 300) -> None:
    """Check that a fitter of abstention rules keeps the contract.

    1. Purity: the reference and random states are as before; again the same; a batch gives what its rows give; tensors and arrays agree.
    2. The promise: over many references, at most a share alpha of rows like them is abstained on, also where the reference has copies.
    3. Rows far away are abstained on.
    4. Edges: NaN (the row is named), and too few rows or groups (how many are needed is said), are refused.

    Args:
        fit: called as ``fit(reference [n, d], alpha=, groups=)``.
        draws: simulated references.

    Raises:
        AssertionError: a clause does not hold; the message says which and by how much.

    Examples:
        >>> from transect.decide import fit_abstention
        >>> check_abstention(fit_abstention, draws=50)
    """
    rng = np.random.default_rng(0)
    reference, new = rng.normal(size=(200, 3)), rng.normal(size=(50, 3))
    with untouched("fitting an abstention rule", reference, new):
        rule = fit(reference, alpha=0.1, groups=None)
        found = np.asarray(rule.abstains(new))
    must(
        np.array_equal(found, np.asarray(fit(reference, alpha=0.1, groups=None).abstains(new))), "purity: fitting again gives another rule"
    )
    single = np.concatenate([np.asarray(rule.abstains(new[at : at + 1])) for at in range(len(new))])
    must(np.array_equal(found, single), "purity: a batch is judged otherwise than its rows")
    tensors = np.asarray(fit(torch.from_numpy(reference), alpha=0.1, groups=None).abstains(torch.from_numpy(new)))
    must(np.array_equal(found, tensors), "purity: tensors and arrays give different rules")
    must(np.asarray(rule.abstains(new + 100.0)).all(), "far: rows a hundred standard deviations away are judged")
    copies = np.repeat(np.arange(60), 3)
    for name, groups in (("rows", None), ("copies", copies)):
        shares = []
        for _ in range(draws):
            rows = rng.normal(size=(60, 3))
            rule = fit(rows if groups is None else rows[groups], alpha=0.1, groups=groups)
            shares.append(np.asarray(rule.abstains(rng.normal(size=(40, 3)))).mean())
        most = 0.1 + 3 * np.std(shares) / np.sqrt(draws)
        must(
            np.mean(shares) <= most,
            f"promise: with {name}, {np.mean(shares):.3f} of rows like the reference are abstained on, 0.1 was allowed",
        )
    lost = reference.copy()
    lost[7] = np.nan
    with refused("edges: NaN in the reference is accepted", InputError, says="row 7"):
        fit(lost, alpha=0.1, groups=None)
    with refused("edges: NaN is judged", InputError, says="row 7"):
        fit(reference, alpha=0.1, groups=None).abstains(lost)
    _needs_more(lambda n: fit(reference[:n], alpha=0.1, groups=None), 5, "rows")
    _needs_more(lambda n: fit(np.repeat(reference[:n], 20, 0), alpha=0.1, groups=np.arange(20 * n) // 20), 5, "groups of copies")


def check_drift_alarm(make: Callable[..., Watches], *, width: int | None = None, draws: int = 300) -> None:
    """Check that a drift alarm keeps the contract.

    1. Purity: the reference and random states are as before; in pieces, a stream gives what it gives at once.
    2. The promise: a stream like the reference sets it off, ever, in at most a share alpha of draws.
    3. A stream that has moved sets it off.
    4. Edges: NaN is refused by its row and nothing of that piece is taken in; ten reference rows are refused, with how many are needed.

    Args:
        make: called as ``make(reference, alpha=, seed=)``.
        width: of activations ``[n, d]``; None for scores ``[n]``.
        draws: simulated streams.

    Raises:
        AssertionError: a clause does not hold; the message says which and by how much.

    Examples:
        >>> from transect.decide import DriftAlarm
        >>> check_drift_alarm(DriftAlarm, draws=50)
    """
    rng = np.random.default_rng(0)

    def rows(n: int) -> np.ndarray:
        return rng.normal(size=n if width is None else (n, width))

    reference, stream = rows(300), rows(90)
    with untouched("a drift alarm", reference, stream):
        whole = make(reference, alpha=0.01, seed=3)
        at_once = whole.update(stream)
    again = make(torch.from_numpy(reference), alpha=0.01, seed=3)
    pieces = [again.update(piece) for piece in np.split(stream, [1, 2, 40])]
    must(pieces[-1] == at_once, "purity: in pieces, a stream is read otherwise than at once")
    ever = np.mean([make(rows(150), alpha=0.2, seed=seed).update(rows(60)).alarm for seed in range(draws)])
    most = 0.2 + 3 * np.sqrt(0.2 * 0.8 / draws)
    must(ever <= most, f"promise: {ever:.3f} of calm streams set it off, 0.2 was allowed")
    must(
        make(reference, alpha=0.01, seed=0).update(stream[:60] + 6.0).alarm,
        "power: a stream six standard deviations away does not set it off",
    )
    lost = stream.copy()
    lost[7] = np.nan
    watch = make(reference, alpha=0.01, seed=3)
    with refused("edges: NaN is accepted", InputError, says="row 7"):
        watch.update(lost)
    must(watch.update(stream) == at_once, "edges: a piece with NaN was taken in, in part")
    _needs_more(lambda n: make(rows(n), alpha=0.01, seed=0), 10, "reference rows")


def check_early_stopping(stop: Callable[..., Any], *, draws: int = 200) -> None:
    """Check that a chooser of early-stopping gates keeps the contract.

    1. Purity: scores, outcomes and random states are as before; again the same.
    2. The promise: over many draws, a certificate that holds has a cascade whose true recall is below the target no more often than
       ``1 - confidence`` and the error of so many draws.
    3. Where failure shows, compute is saved.
    4. Ended rounds: a round that an episode did not reach, NaN, never ends it; neither where gates are applied nor where they are certified.
    5. Edges: infinite scores (the row is named), no success, and too few successes are refused. The error's number is the fewest successes
       that certify the target when none is lost, ``ceil(log(1 - confidence) / log(target))``, and is in its message; twice as many, half
       of them to choose with, are accepted.

    Args:
        stop: called as ``stop(scores [n, r], success [n], costs=, target=, confidence=, seed=)``; gives `cascade` and `certificate`.
        draws: simulated sets of episodes.

    Raises:
        AssertionError: a clause does not hold; the message says which and by how much.

    Examples:
        >>> from transect.decide import stop_early
        >>> check_early_stopping(stop_early, draws=20)
    """
    rng = np.random.default_rng(0)

    def episodes(n: int, signal: float) -> tuple[np.ndarray, np.ndarray]:
        success = rng.random(n) < 0.5
        return rng.normal(size=(n, 2)) + signal * ~success[:, None], success

    settings: dict[str, Any] = {"costs": None, "target": 0.8, "confidence": 0.9, "seed": 0}
    scores, success = episodes(300, 3.0)
    with untouched("choosing gates", scores, success):
        made = stop(scores, success, **settings)
    must(made.certificate == stop(scores, success, **settings).certificate, "purity: choosing again gives another certificate")
    must(made.certificate.holds and made.certificate.saved.value > 0.1, "power: failure that shows saves nothing")
    for name, signal in (("failure that shows a little", 1.0), ("noise", 0.0)):
        new, answers = episodes(4000, signal)
        broken = []
        for seed in range(draws):
            made = stop(*episodes(120, signal), **{**settings, "seed": seed})
            kept = float((np.asarray(made.cascade.ends_at(new))[answers] < 0).mean())
            broken.append(made.certificate.holds and kept < 0.8 - 0.02)  # the true recall is known to 0.01 here
        most = 0.1 + 3 * np.sqrt(0.1 * 0.9 / draws)
        must(np.mean(broken) <= most, f"promise: with {name}, {np.mean(broken):.3f} of certificates are wrong, 0.1 was allowed")
    _lets_ended_rounds_be(stop, settings)
    lost = scores.copy()
    lost[7, 0] = np.inf
    with refused("edges: an infinite score is accepted", InputError, says="7"):
        stop(lost, success, **settings)
    with refused("edges: episodes without a success are accepted", InputError):
        stop(scores, np.zeros_like(success), **settings)
    _needs_successes(lambda n: stop(np.tile(scores[success][:1], (n, 1)), np.ones(n, dtype=bool), **settings), target=0.8, confidence=0.9)


def _lets_ended_rounds_be(stop: Callable[..., Any], settings: dict[str, Any]) -> None:
    """Successes end by themselves after the first round of three, failures show in the second."""
    rng = np.random.default_rng(1)
    success = np.arange(200) % 2 == 0
    scores = rng.normal(size=(200, 3)) + 4.0 * ~success[:, None]
    scores[success, 1:] = np.nan
    made = stop(scores, success, **settings)
    ends = np.asarray(made.cascade.ends_at(scores))
    last = np.isfinite(scores).sum(axis=1) - 1
    late = np.flatnonzero(ends > last)
    must(
        not len(late),
        f"ended rounds: {len(late)} episodes are ended after a round that they did not reach, the first is {late[:1].tolist()}",
    )
    kept = scores[success].copy()
    kept[:, 0] = -9.0  # below every threshold that keeps a success
    must((np.asarray(made.cascade.ends_at(kept)) < 0).all(), "ended rounds: episodes without a score above a threshold are ended")
    calm = scores.copy()
    calm[success, 0] = -9.0
    found = stop(calm, success, **settings).certificate
    must(found.recall.value == 1.0, f"ended rounds: the certificate counts NaN as {1 - found.recall.value:.2f} of the successes lost")


def _needs_successes(make: Callable[[int], Any], *, target: float, confidence: float) -> None:
    """Six are refused with the right number, and twice that number is enough."""
    try:
        make(6)
    except SampleSizeError as error:
        must(
            target**error.needed <= 1 - confidence < target ** (error.needed - 1),
            f"edges: the error says that {error.needed} successes are needed, which is not the fewest that certify a recall of {target:g}",
        )
        must(f"{error.needed} " in str(error), f"edges: the error does not say that {error.needed} successes are needed: {error}")
        must(error.got <= 6, f"edges: the error says that there were {error.got} successes, of 6")
        make(2 * int(error.needed))
    else:
        raise AssertionError("edges: too few successes are accepted")


def _needs_more(make: Callable[[int], Any], few: int, what: str) -> None:
    """`few` are refused, with a number; and with that many it works."""
    try:
        make(few)
    except SampleSizeError as error:
        must(str(error.needed) in str(error), f"edges: the error does not say that {error.needed} {what} are needed: {error}")
        make(error.needed)
    else:
        raise AssertionError(f"edges: {few} {what} are accepted")
