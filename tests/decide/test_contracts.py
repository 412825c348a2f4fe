"""Everything public in `transect.decide` is under a contract: found by walking, so that a new name without one fails."""

import dataclasses
import functools
import inspect

import numpy as np
import pytest

from transect import decide
from transect.decide import (
    ActivationDriftAlarm,
    DriftAlarm,
    SequenceStatistic,
    certify_sequences,
    fit_abstention,
    fit_platt,
    stop_early,
)
from transect.errors import SampleSizeError
from transect.testing import check_abstention, check_drift_alarm, check_early_stopping, check_rows

N = 60
RNG = np.random.default_rng(0)
CODES = np.arange(N) % 2
NORMAL = RNG.normal(size=(N, 6))
SCORES = RNG.normal(size=(N, 4))
VECTORS = RNG.normal(size=(N, 4, 6))
SHARES = RNG.dirichlet(np.ones(3), size=(2, N))
SURE = RNG.random((2, N))
ROUNDS = RNG.normal(size=(N, 3))
LENGTHS = RNG.integers(1, 5, N)
LAYERS = {"layers[0]": NORMAL, "layers[1]": NORMAL[:, ::-1].copy()}


def with_layers(function, **settings):
    """Two layers' activations as one array of rows, so that the contract can move them."""
    return lambda activations, labels: function({"a": activations[:, :3], "b": activations[:, 3:]}, labels, **settings)


def scored(function):
    """What a fitted readout says of the rows it was fitted to."""
    return lambda **rows: np.asarray(function(**rows).weight)


ROWS = {
    "activation_alignment": (decide.activation_alignment, {"vectors": VECTORS}, {}),
    "agent_scores": (decide.agent_scores, {"token_scores": SCORES}, {"called": "agent"}),
    "asymmetry_features": (decide.asymmetry_features, {"scores": SCORES}, {}),
    "audit_membership": (with_layers(decide.audit_membership, folds=3), {"activations": NORMAL, "labels": CODES}, {"ordered": True}),
    "certify_cascade": (
        functools.partial(decide.certify_cascade, decide.select_cascade(ROUNDS, CODES), target=0.5),
        {"scores": ROUNDS.clip(-9, 9), "success": CODES},
        {"called": "episode"},
    ),
    "certify_sequences": (
        functools.partial(certify_sequences, fpr=0.2, confidence=0.8),
        {"scores": SCORES[:, 0], "lengths": np.ones(N, dtype=int)},
        {},
    ),
    "certify_threshold": (functools.partial(decide.certify_threshold, 1.0, side="fpr", target=0.3), {"scores": SCORES[:, 0]}, {}),
    "compare_tokens": (
        lambda logits, decisions: decide.compare_tokens([logits[:, :3], logits[:, 3:]], decisions, folds=3),
        {"logits": NORMAL, "decisions": CODES},
        {"ordered": True},
    ),
    "confidence_features": (decide.confidence_features, {"hidden": NORMAL, "probabilities": SHARES[0]}, {}),
    "deception_split": (decide.deception_split, {"scores": SCORES}, {}),
    "detection_delay": (
        functools.partial(decide.detection_delay, resamples=50),
        {"alarms": np.where(CODES == 1, LENGTHS - 1, -1), "onsets": np.zeros(N, dtype=int), "lengths": LENGTHS},
        {},
    ),
    "ensemble": (decide.ensemble, {"probabilities": SHARES, "confidences": SURE}, {"axes": {"probabilities": 1, "confidences": 1}}),
    "evaluate_agents": (
        functools.partial(
            decide.evaluate_agents,
            asymmetry=decide.fit_asymmetry(SCORES, CODES),
            concatenation=decide.fit_sorted_concatenation(VECTORS, SCORES, CODES),
        ),
        {"vectors": VECTORS, "scores": SCORES, "colluding": CODES},
        {},
    ),
    "evaluate_ensemble": (
        decide.evaluate_ensemble,
        {"probabilities": SHARES, "confidences": SURE, "labels": np.arange(N) % 3},
        {"axes": {"probabilities": 1, "confidences": 1}},
    ),
    "evaluate_familiarity": (
        with_layers(decide.evaluate_familiarity, shuffles=50, folds=3),
        {"activations": NORMAL, "labels": CODES},
        {"ordered": True},
    ),
    "evaluate_routing": (
        lambda probabilities, success: decide.evaluate_routing(probabilities, success, [1.0, 3.0], folds=3, resamples=50),
        {"probabilities": SURE.T.copy(), "success": np.stack([CODES, CODES[::-1]], 1)},
        {"ordered": True},
    ),
    "familiarity_scores": (decide.familiarity_scores, {"activations": NORMAL}, {}),
    "first_alarms": (functools.partial(decide.first_alarms, threshold=0.5), {"scores": SCORES[:, 0], "lengths": np.ones(N, dtype=int)}, {}),
    "fit_asymmetry": (scored(decide.fit_asymmetry), {"scores": SCORES, "colluding": CODES}, {}),
    "fit_confidence": (scored(decide.fit_confidence), {"hidden": NORMAL, "probabilities": SHARES[0], "right": CODES}, {}),
    "fit_distance": (lambda reference: decide.fit_distance(reference)(NORMAL[:5]).sum(), {"reference": NORMAL}, {}),
    "fit_first_token": (scored(decide.fit_first_token), {"logits": NORMAL, "decisions": CODES}, {}),
    "fit_sorted_concatenation": (
        scored(decide.fit_sorted_concatenation),
        {"vectors": VECTORS, "scores": SCORES, "colluding": CODES},
        {},
    ),
    "decide_first_token": (
        lambda logits: np.asarray(decide.decide_first_token(decide.fit_first_token(NORMAL, CODES), logits)),
        {"logits": NORMAL},
        {},
    ),
    "inverse_participation_ratio": (decide.inverse_participation_ratio, {"activations": NORMAL}, {}),
    "logit_features": (decide.logit_features, {"logits": NORMAL}, {}),
    "measure_calibration": (
        functools.partial(
            decide.measure_calibration, fit_platt(NORMAL[:, 0], CODES, rows=[f"old {row}" for row in range(N)]), resamples=50
        ),
        {"scores": SCORES[:, 0], "codes": CODES, "rows": [f"new {row}" for row in range(N)]},
        {},
    ),
    "peak_suspicion": (decide.peak_suspicion, {"scores": SCORES}, {}),
    "route": (lambda probabilities: decide.route(probabilities, [1.0, 3.0]), {"probabilities": SURE.T.copy()}, {}),
    "select_cascade": (functools.partial(decide.select_cascade, target=0.5), {"scores": ROUNDS, "success": CODES}, {"called": "episode"}),
    "sorted_concatenation": (decide.sorted_concatenation, {"vectors": VECTORS, "scores": SCORES}, {}),
    "spectral_entropy": (decide.spectral_entropy, {"activations": NORMAL}, {}),
    "suspects": (
        lambda token_scores: [one.score for one in decide.suspects(list(token_scores))],
        {"token_scores": SCORES},
        {"ordered": True, "called": "agent"},
    ),
    "threshold_for_fpr": (functools.partial(decide.threshold_for_fpr, fpr=0.3), {"negatives": SCORES[:, 0]}, {}),
    "threshold_for_recall": (functools.partial(decide.threshold_for_recall, recall=0.7), {"positives": SCORES[:, 0]}, {}),
    "tpr_at_fpr": (functools.partial(decide.tpr_at_fpr, fpr=0.2), {"scores": SCORES[:, 0], "members": CODES}, {}),
}
"""Function, rows, and what of the contract does not apply to it."""

WITH_A_CHECK_OF_ITS_OWN = {
    "fit_platt": "check_calibration",
    "fit_isotonic": "check_calibration",
    "fit_temperature": "check_calibration",
    "fit_abstention": "check_abstention",
    "stop_early": "check_early_stopping",
}
OF_NUMBERS_ALONE = {"clopper_pearson", "episodes_to_certify", "needed_examples", "needed_reference", "order_statistic"}
"""Functions of a few numbers, which have no rows; their tests have their values."""


@pytest.mark.parametrize("name", sorted(ROWS))
def test_contract_of_rows(name):
    function, rows, apart = ROWS[name]
    check_rows(function, rows, **apart)


def test_contract_of_abstention():
    check_abstention(fit_abstention)


@pytest.mark.parametrize(("kind", "width"), [(DriftAlarm, None), (ActivationDriftAlarm, 3)])
def test_contract_of_drift_alarms(kind, width):
    check_drift_alarm(kind, width=width)


def test_contract_of_early_stopping():
    check_early_stopping(stop_early)


def test_every_public_function_is_under_a_contract():
    functions = {name for name in decide.__all__ if inspect.isfunction(getattr(decide, name))}
    covered = ROWS.keys() | WITH_A_CHECK_OF_ITS_OWN.keys() | OF_NUMBERS_ALONE
    assert functions - covered == set(), "put what is new under a contract here"
    assert covered - functions == set()


def test_every_public_record_is_frozen_and_the_others_are_streams():
    kinds = [getattr(decide, name) for name in decide.__all__ if inspect.isclass(getattr(decide, name))]
    streams = {kind.__name__ for kind in kinds if not dataclasses.is_dataclass(kind)}
    assert streams == {"ActivationDriftAlarm", "DriftAlarm", "RunningStatistic", "SequenceAlarm"}
    for kind in kinds:
        if dataclasses.is_dataclass(kind):
            assert kind.__dataclass_params__.frozen, kind.__name__


@pytest.mark.parametrize("statistic", [SequenceStatistic(), SequenceStatistic(name="mean"), SequenceStatistic(name="top", size=2)])
def test_streams_of_one_sequence_say_what_the_whole_sequence_says(statistic):
    made = certify_sequences(SCORES.ravel(), np.full(N, 4), fpr=0.2, confidence=0.8, statistic=statistic)
    for row in RNG.normal(size=(20, 4)) + 1.0:
        running, alarm = statistic.start(), made.alarm()
        values = [running.update(score) for score in row]
        fired = [alarm.update(score) for score in row]
        assert np.allclose(values, statistic.running(row, [4]), rtol=1e-12, atol=1e-12)
        assert any(fired) == bool(made.fires(row, [4])[0])


class _Judges:
    def __init__(self, rule):
        self.rule = rule

    def abstains(self, activations):
        return np.asarray(self.rule.abstains(activations))


class _Never(_Judges):
    def abstains(self, activations):
        return np.zeros_like(super().abstains(activations))


class _Crowd(_Judges):
    def abstains(self, activations):
        found = super().abstains(activations)
        return found if len(found) == 1 else ~found


@pytest.mark.parametrize(
    ("fit", "clause"),
    [
        (lambda reference, **settings: _Never(fit_abstention(reference, **settings)), "far"),
        (lambda reference, **settings: _Crowd(fit_abstention(reference, **settings)), "batch"),
        (lambda reference, *, alpha, groups: fit_abstention(reference, alpha=min(3 * alpha, 0.9), groups=groups), "promise"),
        (lambda reference, *, alpha, groups: fit_abstention(np.nan_to_num(np.asarray(reference)), alpha=alpha, groups=groups), "NaN"),
    ],
)
def test_a_broken_abstention_fails_with_its_clause(fit, clause):
    with pytest.raises(AssertionError, match=clause):
        check_abstention(fit, draws=60)


class _Forgets(DriftAlarm):
    def update(self, scores):
        self.__init__(self.kept, alpha=0.01, seed=3)
        return super().update(scores)

    def __init__(self, reference, **settings):
        self.kept = np.asarray(reference)
        super().__init__(reference, **settings)


@pytest.mark.parametrize(
    ("make", "clause"),
    [
        (_Forgets, "in pieces"),
        (lambda reference, *, alpha, seed: DriftAlarm(reference, alpha=min(4 * alpha, 0.95), seed=seed), "promise"),
        (
            lambda reference, *, alpha, seed: DriftAlarm(np.resize(np.asarray(reference), 300), alpha=alpha, seed=seed),
            "reference rows|promise",
        ),
    ],
)
def test_a_broken_drift_alarm_fails_with_its_clause(make, clause):
    with pytest.raises(AssertionError, match=clause):
        check_drift_alarm(make, draws=200)


def _boasts(scores, success, **settings):
    made = stop_early(scores, success, **settings)
    gates = dataclasses.replace(made.cascade, thresholds=np.full(2, -0.5))
    return dataclasses.replace(made, cascade=gates)


class _Restless(decide.Cascade):
    """Ends what is not known to be below the threshold, and so what has ended by itself."""

    def ends_at(self, scores):
        over = ~(np.asarray(scores) <= self.thresholds)
        return np.where(over.any(axis=1), over.argmax(axis=1), -1)


def _ends_the_ended(scores, success, **settings):
    made = stop_early(scores, success, **settings)
    return dataclasses.replace(made, cascade=_Restless(**vars(made.cascade)))


def _certifies_the_ended(scores, success, **settings):
    """The gates are right, but the certificate was made on scores whose missing rounds count as the highest."""
    made = stop_early(scores, success, **settings)
    if not np.isnan(scores).any():
        return made
    certificate = decide.certify_cascade(
        dataclasses.replace(made.cascade, thresholds=np.full(3, 99.0)), np.where(np.isnan(scores), 1e9, scores), success, target=0.8
    )
    return dataclasses.replace(made, certificate=certificate)


def _asks_for(more, *, says=None):
    def stop(scores, success, **settings):
        try:
            return stop_early(scores, success, **settings)
        except SampleSizeError as error:
            needed = error.needed + more
            raise SampleSizeError(says or f"at least {needed} successes are needed", needed=needed, got=error.got) from error

    return stop


def _takes_few(scores, success, **settings):
    return stop_early(np.tile(scores, (30, 1)), np.tile(success, 30), **settings)


@pytest.mark.parametrize(
    ("stop", "clause"),
    [
        (_boasts, "promise"),
        (_ends_the_ended, "ended rounds: .* did not reach"),
        (_certifies_the_ended, "ended rounds: the certificate"),
        (_asks_for(1), "12 successes are needed, which is not the fewest"),
        (_asks_for(-1), "10 successes are needed, which is not the fewest"),
        (_asks_for(0, says="too few"), "does not say that 11"),
        (_takes_few, "too few successes are accepted"),
    ],
)
def test_a_broken_early_stopping_fails_with_its_clause(stop, clause):
    with pytest.raises(AssertionError, match=clause):
        check_early_stopping(stop, draws=40 if stop is _boasts else 5)


@pytest.mark.parametrize(
    ("function", "clause"),
    [
        (lambda scores: np.asarray(scores).mean(1) + np.arange(N), "reordered"),
        (lambda scores: float(np.asarray(scores)[0, 0]), "order of the rows"),
        (lambda scores: np.asarray(scores) * np.nan, "is NaN"),
        (lambda scores: np.nan_to_num(np.asarray(scores)).mean(1), "NaN in scores is accepted"),
    ],
)
def test_broken_rows_fail_with_their_clause(function, clause):
    with pytest.raises(AssertionError, match=clause):
        check_rows(function, {"scores": SCORES.copy()})
