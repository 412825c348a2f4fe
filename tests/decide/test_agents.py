import numpy as np
import pytest
import torch

from transect.decide.agents import (
    activation_alignment,
    agent_scores,
    asymmetry_features,
    deception_split,
    evaluate_agents,
    fit_asymmetry,
    fit_sorted_concatenation,
    peak_suspicion,
    sorted_concatenation,
    suspects,
)
from transect.errors import InputError
from transect.measure import auroc


def _scenarios(n=200, *, kind="pair", seed=0):
    """Four agents each; where they collude, two of them (`pair`), one (`one`) or none (`noise`) lean along the probe's direction."""
    rng = np.random.default_rng(seed)
    colluding = np.arange(n) % 2 == 0
    vectors = rng.standard_normal((n, 4, 8)) + 3 * np.eye(8)[1]
    for agent in range({"pair": 2, "one": 1, "noise": 0}[kind]):
        vectors[colluding, agent, 0] += 4
    for row in vectors:
        rng.shuffle(row, axis=0)
    return vectors, vectors[:, :, 0], colluding


def _evaluated(kind):
    vectors, scores, colluding = _scenarios(kind=kind, seed=1)
    asymmetry, concatenation = fit_asymmetry(scores, colluding), fit_sorted_concatenation(vectors, scores, colluding)
    return evaluate_agents(*_scenarios(kind=kind, seed=2), asymmetry=asymmetry, concatenation=concatenation)


@pytest.mark.parametrize("kind", ["pair", "one"])
def test_planted_collusion_is_found_by_all_that_read_the_probe(kind):
    found = _evaluated(kind)
    for name in ("peak_suspicion", "deception_split", "asymmetry", "sorted_concatenation"):
        assert getattr(found, name).low > 0.75, name


def test_agents_that_go_separate_ways_are_told_by_their_alignment_alone():
    rng = np.random.default_rng(3)
    colluding = np.arange(100) % 2 == 0
    vectors = rng.standard_normal((100, 4, 8)) + 2 * (~colluding)[:, None, None] * np.eye(8)[1]
    assert auroc(activation_alignment(vectors), colluding) > 0.9


def test_noise_says_chance_by_all_five():
    found = _evaluated("noise")
    assert not any(getattr(found, name).excludes(0.5) for name in vars(found))


def test_aggregations_by_hand():
    scores = [[0.0, 4.0, 2.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    assert peak_suspicion(scores).tolist() == [4.0, 1.0]
    assert deception_split(scores).tolist() == [3.0, 0.0]
    assert deception_split([[6.0, 0.0, 3.0]]).tolist() == [4.5]  # one against two
    np.testing.assert_allclose(asymmetry_features(scores)[0], [2.75, 4.0, 3.0, 1.5], rtol=1e-12)
    same, opposite = [[[1.0, 0.0], [2.0, 0.0]]], [[[1.0, 0.0], [-2.0, 0.0]]]
    assert activation_alignment(same + opposite).tolist() == [-1.0, 1.0]
    assert agent_scores([[1.0, 3.0], [5.0]]).tolist() == [2.0, 5.0]


def test_who_sits_where_does_not_matter():
    vectors, scores, _ = _scenarios(20)
    order = [2, 0, 3, 1]
    for whole, shuffled in [
        (peak_suspicion(scores), peak_suspicion(scores[:, order])),
        (deception_split(scores), deception_split(scores[:, order])),
        (activation_alignment(vectors), activation_alignment(vectors[:, order])),
        (sorted_concatenation(vectors, scores), sorted_concatenation(vectors[:, order], scores[:, order])),
    ]:
        np.testing.assert_allclose(whole, shuffled, rtol=1e-12)


def test_the_readout_of_components_is_written_out_in_full():
    vectors, scores, colluding = _scenarios()
    readout = fit_sorted_concatenation(vectors, scores, colluding)
    assert readout.width == 32
    rows = torch.from_numpy(sorted_concatenation(vectors, scores))
    assert auroc(readout.scores(rows), colluding) > 0.9
    assert readout.classes == (False, True)


def test_a_spiking_token_is_the_first_suspect():
    rng = np.random.default_rng(0)
    tokens = [rng.standard_normal(30), rng.standard_normal(20)]
    tokens[1][7] = 12.0
    found = suspects(tokens, tokens=[[f"a{i}" for i in range(30)], [f"b{i}" for i in range(20)]], most=3)
    assert (found[0].agent, found[0].position, found[0].token) == (1, 7, "b7")
    assert found[0].deviation > 6 > found[1].deviation
    assert suspects([[1.0, 1.0], [1.0, 2.0]], most=1)[0].deviation == np.inf


def test_what_does_not_fit_is_refused():
    vectors, scores, colluding = _scenarios(20)
    with pytest.raises(InputError, match="two agents"):
        peak_suspicion([[1.0]])
    with pytest.raises(InputError, match="scores must be"):
        sorted_concatenation(vectors, scores[:, :3])
    with pytest.raises(InputError, match="honest"):
        fit_asymmetry(scores, np.zeros(20))
    with pytest.raises(InputError, match="scenario 1"):
        activation_alignment([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]])
    with pytest.raises(InputError, match="as long as"):
        suspects([[1.0, 2.0]], tokens=[["a"]])
    broken = scores.copy()
    broken[3, 1] = np.nan
    with pytest.raises(InputError, match="row 3"):
        fit_asymmetry(broken, colluding)
