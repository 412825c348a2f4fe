"""The verdict on planted data of each kind, from simulated scores to the words."""

import dataclasses

import numpy as np
import pytest

from transect.measure import (
    READABLE_RULE,
    SPEARMAN,
    SURFACE_RULE,
    TRANSFER_RULES,
    Comparison,
    Estimate,
    Evidence,
    Meaning,
    Transfer,
    auroc_columns,
    auroc_interval,
    auroc_statistic,
    difference,
    permutation_p,
    permute_labels,
    transfer_status,
    verdict,
)

RESAMPLES = 300


def simulate(rng, *, n_groups=80, signal=3.0):
    groups, labels = np.repeat(np.arange(n_groups), 2), np.tile([0, 1], n_groups)
    return rng.normal(size=2 * n_groups) + signal * labels, labels, groups


def gather(rng, *, n_groups=80, signal=3.0, surface=0.0, untrained=None, others=None, meaning=None):
    """Evidence on one planted design: signal is the distance of the class means of the probe's scores, in standard deviations."""
    scores, labels, groups = simulate(rng, n_groups=n_groups, signal=signal)
    home = auroc_interval(scores, labels, groups=groups, resamples=RESAMPLES)

    def compare(title, strength):
        rival = rng.normal(size=len(labels)) + strength * labels
        gap = difference(auroc_statistic(scores, labels), auroc_statistic(rival, labels), groups=groups, resamples=RESAMPLES)
        return Comparison(title=title, estimate=auroc_interval(rival, labels, groups=groups, resamples=RESAMPLES), difference=gap)

    transfers = []
    for name, strength in (others or {}).items():
        there, codes, theirs = simulate(rng, signal=strength)
        estimate = auroc_interval(there, codes, groups=theirs, resamples=RESAMPLES)
        transfers.append(
            Transfer(train="animals", test=name, site="layers[3]", estimate=estimate, n=len(codes), status=transfer_status(estimate, home))
        )
    shuffled = permute_labels(labels, groups=groups, shuffles=99, seed=int(rng.integers(2**31)))
    return Evidence(
        train="animals",
        site="layers[3]",
        test=home,
        permutation_p=permutation_p(home.value, auroc_columns(scores, shuffled.labels.T)),
        surface=(compare("bag of words", surface), compare("text length", 0.0)),
        untrained=None if untrained is None else compare("untrained model", untrained),
        transfers=tuple(transfers),
        meaning=meaning,
    )


def test_readable_and_carries_over():
    result = verdict(gather(np.random.default_rng(0), untrained=0.3, others={"plants": 2.5}))
    assert (result.readable, result.beyond_surface, result.transfers) == (True, True, {"plants": "yes"})
    assert "The label of animals is readable at layers[3]" in result.text and "It carries over to plants" in result.text
    assert "reaches only" in result.text and "every set tried" in result.text


def test_readable_and_inverted_elsewhere():
    evidence = gather(np.random.default_rng(1), others={"neg_animals": -3.5, "numbers": 0.0})
    result = verdict(evidence)
    assert result.readable and result.transfers == {"neg_animals": "inverted", "numbers": "no"}
    assert "inverted, there it says the opposite of the label" in result.text and "near chance" in result.text
    assert "goes along with the label in animals and against it on neg_animals" in result.text
    told = verdict(dataclasses.replace(evidence, meaning=Meaning(claim="whether it is true", shortcut="whether the words match")))
    assert told.text.endswith("so the probe reads whether the words match, not whether it is true.")
    assert told.transfers == result.transfers


def test_readable_but_only_at_home():
    result = verdict(gather(np.random.default_rng(2), others={"numbers": 0.0}))
    assert result.transfers == {"numbers": "no"} and "tied to sets like animals" in result.text
    result = verdict(gather(np.random.default_rng(2)))
    assert result.transfers == {} and "tried on no other set" in result.text


def test_readable_only_by_the_surface():
    result = verdict(gather(np.random.default_rng(3), surface=3.0, others={"plants": 3.0}))
    assert (result.readable, result.beyond_surface) == (True, False)
    assert "But bag of words alone reaches 0.9" in result.text and "no evidence that the model represents the label" in result.text


def test_an_untrained_model_that_does_as_well_is_said_plainly():
    result = verdict(gather(np.random.default_rng(4), untrained=3.1))
    assert (result.readable, result.beyond_surface) == (True, False)
    assert "the model's training added nothing that the probe uses" in result.text
    between = verdict(gather(np.random.default_rng(4), untrained=1.5))
    assert between.beyond_surface and "already reaches" in between.text


def test_noise_is_said_to_be_noise():
    readings = [verdict(gather(np.random.default_rng(seed), n_groups=120, signal=0.0)) for seed in range(12)]
    assert sum(result.readable is False for result in readings) >= 11
    assert "not readable" in readings[0].text and "guessing gives 0.50" in readings[0].text
    assert all(result.beyond_surface is False for result in readings if result.readable is False)


def test_noise_is_called_chance_in_ninety_five_of_a_hundred_runs():
    answers = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        scores, labels, groups = simulate(rng, n_groups=150, signal=0.0)
        home = auroc_interval(scores, labels, groups=groups, resamples=200, seed=seed)
        shuffled = permute_labels(labels, groups=groups, shuffles=60, seed=seed)
        p = permutation_p(home.value, auroc_columns(scores, shuffled.labels.T))
        answers.append(verdict(Evidence(train="noise", site="layers[0]", test=home, permutation_p=p)).readable)
    assert answers.count(True) == 0
    assert answers.count(False) / 200 >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 200)


def test_few_groups_are_unclear_and_the_reader_is_warned():
    result = verdict(gather(np.random.default_rng(1), n_groups=7, signal=0.6, others={"plants": 0.8}))
    assert result.readable is None and result.beyond_surface is None
    assert "unclear" in result.text and "the interval is too wide to tell" in result.text and "only 7 groups were held out" in result.text
    assert "guess" not in result.text


@pytest.fixture
def strong():
    return gather(np.random.default_rng(0), others={"plants": 0.0})


def test_shuffled_labels_that_do_as_well_take_the_reading_back(strong):
    result = verdict(dataclasses.replace(strong, permutation_p=0.2))
    assert result.readable is None and "shuffled labels do as well too often" in result.text
    assert verdict(dataclasses.replace(strong, permutation_p=None)).readable is True


def test_scores_below_chance_are_pointed_out(strong):
    result = verdict(dataclasses.replace(strong, test=Estimate(0.3, 0.2, 0.4, n=100, groups=50), permutation_p=1.0))
    assert result.readable is False and "below chance" in result.text


def test_missing_controls_leave_the_question_open(strong):
    result = verdict(dataclasses.replace(strong, surface=()))
    assert result.beyond_surface is None and "No surface baseline was run" in result.text


def test_a_weak_baseline_with_a_wide_interval_is_unclear_not_no(strong):
    vague = Comparison(title="bag of words", estimate=Estimate(0.6, 0.2, 0.9), difference=Estimate(0.38, -0.1, 0.8))
    assert verdict(dataclasses.replace(strong, surface=(vague,))).beyond_surface is None


def test_cautions_are_passed_on(strong):
    result = verdict(
        dataclasses.replace(strong, leaks=("3 texts are in both splits.",), cautions=("the site is the deepest",), calibration_error=0.25)
    )
    assert "Be careful: 3 texts are in both splits; the site is the deepest; its probabilities are off by 0.25" in result.text


def test_correlations_are_judged_on_their_own_scale_and_by_their_own_name(strong):
    home = Estimate(0.9, 0.85, 0.93, n=100, groups=50)
    there = Estimate(-0.8, -0.9, -0.7)
    assert transfer_status(there, home, metric=SPEARMAN) == "inverted"
    assert transfer_status(Estimate(0.02, -0.1, 0.15), home, metric=SPEARMAN) == "no"
    assert transfer_status(Estimate(0.7, 0.6, 0.8), home, metric=SPEARMAN) == "yes"
    transfer = Transfer(train="a", test="b", site="x", estimate=there, metric=SPEARMAN, status="inverted")
    result = verdict(Evidence(train="a", site="x", test=home, metric=SPEARMAN, permutation_p=0.01, transfers=(transfer,)))
    assert result.readable and "Spearman correlation 0.90" in result.text
    assert verdict(Evidence(train="a", site="x", test=Estimate(0.05, -0.1, 0.2), metric=SPEARMAN)).readable is False
    assert transfer.to_json()["spearman"]["value"] == -0.8


def test_weak_and_missing_intervals_do_not_become_answers():
    home = Estimate(0.98, 0.96, 0.99)
    assert transfer_status(Estimate(0.62, 0.58, 0.66), home) == "no"
    assert transfer_status(Estimate.bare(0.9), home) == "unclear"
    assert transfer_status(Estimate(0.5, 0.45, 0.55), Estimate(0.55, 0.4, 0.7)) == "unclear"
    weak = Transfer(train="a", test="b", site="x", estimate=Estimate(0.62, 0.58, 0.66), status="no")
    assert "above chance but weak" in verdict(Evidence(train="a", site="x", test=home, transfers=(weak,))).text
    close = dataclasses.replace(weak, estimate=Estimate(0.45, 0.41, 0.49))
    assert "near chance" in verdict(Evidence(train="a", site="x", test=home, transfers=(close,))).text
    low = dataclasses.replace(weak, estimate=Estimate(0.38, 0.35, 0.42))
    assert transfer_status(low.estimate, home) == "no"  # a weak opposite is no inversion, as a weak likeness is no transfer
    assert "somewhat below chance" in verdict(Evidence(train="a", site="x", test=home, transfers=(low,))).text


def test_the_rules_are_quoted_with_the_numbers(strong):
    result = verdict(strong)
    quoted = {rule.name: rule for rule in result.rules}
    assert quoted["readable"].rule == READABLE_RULE and quoted["readable"].outcome == "yes"
    assert quoted["beyond_surface"].rule == SURFACE_RULE and "bag of words" in quoted["beyond_surface"].applied
    assert all(rule in quoted["transfers"].rule for rule in TRANSFER_RULES.values()) and "plants" in quoted["transfers"].applied
    fields = result.to_json()
    assert fields["transfers"] == {"plants": "no"} and len(fields["rules"]) == 3 and isinstance(fields["rules"][0], dict)
