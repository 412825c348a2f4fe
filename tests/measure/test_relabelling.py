import json

import numpy as np
import pytest

from transect.errors import InputError, SampleSizeError
from transect.measure import relabelling_stability
from transect.probes import Logistic, MeanDifference


def data(neither, n=600, d=6, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.array(["true", "false", "neither"])[np.arange(n) % 3]
    x = rng.normal(size=(n, d))
    x[:, 0] += 2.0 * (truth == "true") - 2.0 * (truth == "false")
    x[truth == "neither"] += neither
    return x, truth


def test_neither_rows_on_their_own_axis_leave_judgements_alone_and_others_do_not():
    calm = relabelling_stability(*data([0, 8, 0, 0, 0, 0]), resamples=200)
    torn = relabelling_stability(*data([0, 0, 0, 0, 0, 0]), resamples=200)
    assert calm.largest.flipped.high < torn.largest.flipped.low
    assert torn.largest.first == "false" and torn.largest.second == "true"
    assert all(one.value > 0.95 for one in torn.auroc.values())
    json.dumps([calm.to_json(), torn.to_json()], allow_nan=False)


def test_it_is_three_fits_by_hand():
    x, truth = data([0, 3, 0, 0, 0, 0], n=150)
    mask = np.arange(150) // 3 % 2 == 0
    found = relabelling_stability(x, truth, held_out=mask, fitter=MeanDifference(), regularization=None, resamples=50)
    firm, fitted = truth != "neither", ~mask
    out = MeanDifference().fit(x[fitted & firm], truth[fitted & firm] == "true")
    false = MeanDifference().fit(x[fitted], truth[fitted] == "true")
    true = MeanDifference().fit(x[fitted], truth[fitted] != "false")
    held = x[mask & firm]
    judged = [probe.decision_function(held) > 0 for probe in (out, false, true)]
    expected = [np.mean(judged[a] != judged[b]) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert [shift.flipped.value for shift in found.shifts] == pytest.approx(expected)
    u, v = out.coef_[0], false.coef_[0]
    assert found.shifts[0].cosine == pytest.approx(u @ v / np.linalg.norm(u) / np.linalg.norm(v))
    assert found.shifts[0].degrees == pytest.approx(np.degrees(np.arccos(found.shifts[0].cosine)))
    assert (found.n_held_out, found.n_neither) == (50, 25)


def test_domains_are_told_apart():
    x, truth = data([0, 0, 0, 0, 0, 0])
    domains = np.array(["city", "word"])[(np.arange(600) // 3) % 2]
    near = domains == "word"
    x[near, 0] *= 0.2  # nearer the boundary, so more of it flips
    found = relabelling_stability(x, truth, domains=domains, resamples=200)
    by = found.largest.by_domain
    assert set(by) == {"city", "word"} and by["word"].low > by["city"].high and "most in word" in found.sentence
    whole = found.largest.flipped
    assert by["city"].value * by["city"].n + by["word"].value * by["word"].n == pytest.approx(whole.value * whole.n)


def test_whole_groups_are_held_out():
    x, truth = data([0, 2, 0, 0, 0, 0])
    groups = np.arange(600) // 6
    found = relabelling_stability(x, truth, groups=groups, fitter=Logistic(tol=1e-3), resamples=50)
    assert found.largest.flipped.groups == 50 and found.n_held_out == 200 and found.n_neither == 100
    with pytest.raises(InputError, match="both sides"):
        relabelling_stability(x, truth, groups=groups, held_out=np.arange(600) % 2)


def test_what_cannot_be_used_is_named():
    x, truth = data([0, 0, 0, 0, 0, 0], n=60)
    bad = x.copy()
    bad[5] = np.nan
    odd = truth.astype(object)
    odd[4] = "maybe"
    cases = [
        (InputError, "row 5", bad, truth, {}),
        (InputError, "'maybe' in row 4", x, odd, {}),
        (InputError, r"none of \['neither'\]", x[truth != "neither"], truth[truth != "neither"], {}),
        (InputError, "one entry for each of the 60 rows", x, truth[1:], {}),
        (InputError, "all 20 neither rows are held out", x, truth, {"held_out": (truth == "neither") | (np.arange(60) < 30)}),
        (SampleSizeError, "both classes", x, truth, {"held_out": truth == "true"}),
    ]
    for kind, says, rows, words, settings in cases:
        with pytest.raises(kind, match=says):
            relabelling_stability(rows, words, resamples=20, **settings)
