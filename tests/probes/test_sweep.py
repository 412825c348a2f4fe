"""The sweep is what fitting every fold, strength and resample one by one would give."""

import numpy as np
import pytest
import torch

from transect.errors import InputError
from transect.probes import LDA, Inside, Logistic, MeanDifference, Ridge, fit_readout, resampled_scores, sweep

TIGHT = Logistic(tol=1e-9)
FITTERS = [TIGHT, LDA(), MeanDifference(), Ridge(targets="classes")]
STRENGTHS = {"C": (1e-3, 1e-2, 0.1, 1.0, 10.0, 1e3, 1e5), "shrinkage": (0.01, 0.5), "alpha": (1e-2, 10.0)}


def rows(n=80, d=9, classes=2, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    codes = torch.arange(n) % classes
    centres = 2 * torch.randn(classes, d, generator=generator)
    return 3 + 4 * (torch.randn(n, d, generator=generator) + centres[codes]), codes


def scaled(x):
    x = x.double()
    middle = x.mean(0)
    return (x - middle) / (x - middle).square().mean().sqrt()


def alone(fitter, strength, x, y, weight=None):
    """One fit by the estimator itself, on rows scaled as the sweep scales them."""
    settings = fitter.get_params() | ({} if fitter.strength is None else {fitter.strength: strength})
    return type(fitter)(**settings).fit(x, y, weight)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("fitter", FITTERS, ids=repr)
def test_every_score_is_that_of_the_fold_that_did_not_see_the_row(fitter, classes):
    x, codes = rows(classes=classes)
    folds = np.arange(80) // 3 % 4
    folds[:6] = -1
    used = folds >= 0
    names = tuple("abc"[:classes])
    strengths = STRENGTHS.get(fitter.strength or "")
    found = sweep({"one": x, "two": x * 10}, codes, folds=folds, fitter=fitter, classes=names, strengths=strengths)
    assert found.unconverged == 0
    same = found.scores[0] * (100 if isinstance(fitter, MeanDifference) else 1)  # a strength means the same at any scale
    np.testing.assert_allclose(found.scores[1], same, rtol=0, atol=1e-5 * np.abs(same).max())
    assert (found.scores[:, :, ~used] == 0).all()
    z = torch.zeros(80, 9).double()
    z[used] = scaled(x[used])
    scale = float((x[used].double() - x[used].double().mean(0)).square().mean().sqrt())
    unit = scale**2 if isinstance(fitter, MeanDifference) else 1
    for at, strength in enumerate(strengths or (None,)):
        for fold in range(4):
            train, test = used & (folds != fold), folds == fold
            want = alone(fitter, strength, z[train], codes[train]).decision_function(z[test]).numpy() * unit
            got = found.scores[0, at, test]
            if classes > 2 and isinstance(fitter, LDA | MeanDifference):  # one line more or less in all classes is no difference
                want, got = want - want.mean(1, keepdims=True), got - got.mean(1, keepdims=True)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())
        readout = found.readout("one", at)
        assert readout.classes == names
        every = alone(fitter, strength, z[used], codes[used]).decision_function(z[used]).numpy() * unit
        np.testing.assert_allclose(
            readout.scores(x[used]).numpy(), every, rtol=1e-3, atol=1e-4 * np.abs(every).max() + (1e-1 if unit > 1 else 0)
        )


def test_numbers():
    x, _ = rows()
    y = x[:, 0] + 0.1 * x[:, 1]
    found = sweep({"a": x}, y, folds=np.arange(80) % 5, fitter=Ridge(), classes=None, strengths=(1e-3, 1e5))
    assert np.corrcoef(found.scores[0, 0], y)[0, 1] > 0.999
    assert np.abs(found.scores[0, 1] - float(y.mean())).max() < np.abs(found.scores[0, 0] - float(y.mean())).max()
    assert found.readout("a", 0).classes is None


@pytest.mark.parametrize("fitter", FITTERS, ids=repr)
def test_resamples_are_single_fits(fitter):
    x, codes = rows()
    rng = np.random.default_rng(0)
    labels = np.stack([codes.numpy(), *(rng.permutation(codes.numpy()) for _ in range(3))], 1)
    weights = rng.multinomial(80, np.full(80, 1 / 80), size=4).T.astype(float)
    strength = {"C": 0.5, "shrinkage": 0.3, "alpha": 2.0}.get(fitter.strength or "")
    scores = resampled_scores(fitter, x, labels, x[:10], weights=weights, regularization=strength, classes=(0, 1))
    assert scores.shape == (10, 4)
    z = scaled(x)
    unit = float((x.double() - x.double().mean(0)).square().mean()) if isinstance(fitter, MeanDifference) else 1
    for b in range(4):
        want = alone(fitter, strength, z, labels[:, b], weights[:, b]).decision_function(z[:10]).numpy() * unit
        np.testing.assert_allclose(scores[:, b], want, rtol=1e-5, atol=1e-6 * np.abs(want).max())


def test_one_fit_is_the_sweeps_fit_on_all_rows():
    x, codes = rows()
    found = sweep({"a": x}, codes, folds=np.arange(80) % 4, fitter=TIGHT, classes=(0, 1), strengths=(0.1, 1.0))
    single = fit_readout(TIGHT, x, codes, classes=(0, 1), regularization=1.0)
    torch.testing.assert_close(single.weight, found.readout("a", 1).weight, rtol=1e-4, atol=1e-6)
    assert found.regularization(1) == 1.0
    assert found.penalties[0] > found.penalties[1]


def test_the_path_changes_nothing():
    """Strengths fitted along the path, in any order given, are those fitted alone."""
    x, codes = rows(60, 90)
    folds = np.arange(60) // 2 % 3
    order = (10.0, 1e-3, 1e5, 1e-1, 1e3, 1e-2, 1.0)
    together = sweep({"a": x}, codes, folds=folds, fitter=TIGHT, classes=(0, 1), strengths=order)
    for at, strength in enumerate(order):
        single = sweep({"a": x}, codes, folds=folds, fitter=TIGHT, classes=(0, 1), strengths=(strength,))
        np.testing.assert_allclose(together.scores[0, at], single.scores[0, 0], rtol=1e-6, atol=1e-7)


def test_a_site_where_nothing_varies_says_nothing():
    codes = torch.arange(40) % 2
    x = torch.full((40, 5), 0.1)
    found = sweep({"embed": x}, codes, folds=np.arange(40) // 2 % 4, fitter=Logistic(), classes=(0, 1), strengths=(1.0, 1e4))
    assert found.unconverged == 0
    np.testing.assert_allclose(found.scores, 0, atol=1e-6, rtol=0)
    assert found.readout("embed", 1).weight.abs().max() < 1e-6


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"folds": np.zeros(80, dtype=int)}, "at least two folds"),
        ({"folds": np.arange(79) % 4}, "one length"),
        ({"folds": np.arange(80) % 2}, "without fold"),
        ({"activations": {"deep": torch.full((80, 9), float("nan"))}}, "deep holds NaN or inf in row 0"),
        ({"activations": {"deep": torch.zeros(79, 9)}}, "deep must be"),
    ],
)
def test_refusals(change, says):
    x, codes = rows()
    arguments = {"activations": {"a": x}, "folds": np.arange(80) // 2 % 4} | change
    activations = arguments.pop("activations")
    with pytest.raises(InputError, match=says):
        sweep(activations, codes, fitter=Logistic(), classes=(0, 1), **arguments)


def test_a_resample_without_a_class_is_refused():
    x, codes = rows()
    weights = np.ones((80, 2))
    weights[codes == 1, 1] = 0
    for fitter in (Logistic(), LDA()):
        with pytest.raises(InputError, match="fit 1 of 2 has none of class 1"):
            resampled_scores(fitter, x, np.stack([codes] * 2, 1), x, weights=weights, regularization=0.5, classes=(0, 1))


def test_at_a_site_where_nothing_varies_the_score_is_the_log_odds_of_the_classes():
    codes = (np.arange(100) % 5 == 0).astype(np.int64)  # 20 of 100 are positive: the intercept has to move, the weights must not
    found = sweep({"flat": torch.full((100, 4), 7.0)}, codes, folds=np.arange(100) // 5 % 4, fitter=Logistic(), classes=(0, 1))
    np.testing.assert_allclose(found.scores, np.log(0.25), rtol=1e-4)
    for at in range(len(found.strengths)):
        assert found.readout("flat", at).weight.abs().max() < 1e-6
        assert found.unconverged == 0


@pytest.mark.parametrize("shape", ["tall", "wide"])
@pytest.mark.parametrize("fitter", FITTERS, ids=repr)
def test_inside_a_fold_is_measured_by_fits_that_saw_neither_it_nor_the_part(fitter, shape):
    x, codes = rows(60, 9 if shape == "tall" else 70)
    folds = np.arange(60) // 3 % 4
    folds[:6] = -1
    asked = []

    def measure(scores, at):
        asked.append(at)
        return scores @ np.cos(at)  # of every row, each with its own weight

    strengths = STRENGTHS.get(fitter.strength or "")
    settings = {"folds": folds, "fitter": fitter, "classes": (0, 1), "strengths": strengths}
    found = sweep({"a": x}, codes, inside=Inside(parts=folds, measure=measure), **settings)
    np.testing.assert_allclose(found.scores, sweep({"a": x}, codes, **settings).scores, rtol=1e-6, atol=1e-7 * np.abs(found.scores).max())
    assert found.inside.shape == (1, len(strengths or (None,)), 4, 4)
    assert len(asked) == 12
    z, used = torch.zeros(60, x.shape[1]).double(), folds >= 0
    z[used] = scaled(x[used])
    unit = float((x[used].double() - x[used].double().mean(0)).square().mean()) if isinstance(fitter, MeanDifference) else 1
    for at, strength in enumerate(strengths or (None,)):
        assert np.isnan(found.inside[0, at].diagonal()).all()
        for fold, part in ((0, 1), (1, 0), (3, 2)):
            train, test = used & (folds != fold) & (folds != part), np.flatnonzero(folds == part)
            want = alone(fitter, strength, z[train], codes[train]).decision_function(z[test]).numpy() * unit
            assert found.inside[0, at, fold, part] == pytest.approx(want @ np.cos(test), rel=1e-5, abs=1e-5 * np.abs(want).max())


def test_parts_of_two_folds_and_parts_without_which_a_class_is_missing():
    x, codes = rows(40, 5)
    folds = np.arange(40) // 2 % 2

    def measure(scores, at):
        return scores[:, : len(at)].mean(1)

    halves = sweep(
        {"a": x}, codes, folds=folds, fitter=LDA(), classes=(0, 1), inside=Inside(parts=2 * folds + np.arange(40) // 4 % 2, measure=measure)
    )
    assert np.isfinite(halves.inside).all(axis=(0, 1)).tolist() == [[False, False, True, True], [True, True, False, False]]
    assert np.isnan(
        sweep({"a": x}, codes, folds=folds, fitter=LDA(), classes=(0, 1), inside=Inside(parts=folds, measure=measure)).inside
    ).all()
    rare = (torch.arange(40) // 2 % 4 < 2).long()  # the second class lies in folds 0 and 1 only
    missing = sweep(
        {"a": x},
        rare,
        folds=np.arange(40) // 2 % 4,
        fitter=LDA(),
        classes=(0, 1),
        inside=Inside(parts=np.arange(40) // 2 % 4, measure=measure),
    )
    lacking = np.isnan(missing.inside).all(axis=(0, 1))
    assert lacking.tolist() == [
        [True, True, False, False],
        [True, True, False, False],
        [False, False, True, True],
        [False, False, True, True],
    ]
    with pytest.raises(InputError, match="parts must be"):
        sweep({"a": x}, codes, folds=folds, fitter=LDA(), classes=(0, 1), inside=Inside(parts=folds[:9], measure=measure))


@pytest.mark.parametrize(("alpha", "bound"), [(1e-9, 1e-3), (1e-2, 1e-10), (1e4, 1e-13)])  # eps times the spectrum over alpha
def test_ridge_without_a_few_rows_is_ridge_on_the_others(alpha, bound):
    """Both ways through the solver: a system of the rows left out, and, where that would lose digits, of the coordinates."""
    x, codes = rows(50, 80, seed=1)
    found = sweep({"a": x}, codes, folds=np.arange(50) // 2 % 5, fitter=Ridge(targets="classes"), classes=(0, 1), strengths=(alpha,))
    z = scaled(x)
    for fold in range(5):
        train, test = np.arange(50) // 2 % 5 != fold, np.arange(50) // 2 % 5 == fold
        want = Ridge(alpha, targets="classes").fit(z[train], codes[train]).decision_function(z[test]).numpy()
        np.testing.assert_allclose(found.scores[0, 0, test], want, rtol=0, atol=bound * np.abs(want).max())
