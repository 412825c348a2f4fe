"""Reports with planted numbers: two classes, more classes, numbers; few sites and many. Nothing is fitted here."""

import numpy as np

from transect.measure import Estimate, Rule, Verdict
from transect.report import (
    Baseline,
    CaptureInfo,
    DataInfo,
    Environment,
    Histogram,
    MetricInfo,
    ModelInfo,
    ProbeScore,
    Report,
    Scores,
    Selected,
    SiteScore,
    SplitInfo,
    TableInfo,
    Timing,
    TransferScore,
    VerifyInfo,
    WrongText,
)

NASTY = "<script>alert('x')</script> & \"quoted\" [bold]not markup[/bold] \u2028 </script>"


def estimate(value, half=0.02, low=0.0, high=1.0, n=300):
    return Estimate(value=value, low=max(low, value - half), high=min(high, value + half), level=0.95, n=n, method="group bootstrap")


def site_names(layers):
    return ("embed", *(f"layers[{index}]" for index in range(layers)), "final_norm")


def rise(layers, top, *, middle=0.35, bottom=0.5):
    """A curve that rises through the layers as such curves do, and falls a little at the end."""
    depth = np.linspace(0, 1, layers + 2)
    return bottom + (top - bottom) / (1 + np.exp(-14 * (depth - middle))) - 0.02 * depth**6


def table(name, *, n=300, kind="binary", classes=(0, 1), note=()):
    counts = None if classes is None else tuple(n // len(classes) for _ in classes)
    return TableInfo(
        name=name,
        source=f"built-in {name}",
        digest="sha256:1f2e3d4c5b6a79880123456789abcdef",
        n=n,
        n_groups=n // 2,
        kind=kind,
        classes=classes,
        counts=counts,
        columns={"text": "statement", "label": "label", "group": "city"},
        notes=note,
    )


def by_site(layers, metric, *, trained, untrained, half):
    low, high = (-1.0, 1.0) if metric == "spearman" else (0.0, 1.0)
    return tuple(
        SiteScore(
            site=site,
            regularization=1.0,
            validation=float(trained[index] - 0.004),
            test=estimate(float(trained[index]), half * (1.2 - trained[index]), low, high),
            band_low=max(low, float(trained[index]) - 1.7 * half * (1.2 - float(trained[index]))),
            band_high=min(high, float(trained[index]) + 1.7 * half * (1.2 - float(trained[index]))),
            untrained=float(untrained[index]),
        )
        for index, site in enumerate(site_names(layers))
    )


def baselines(metric, chance, rng):
    def scored(value, half=0.05, **more):
        return Baseline(**{metric: estimate(value, half, low=-1.0 if chance == 0 else 0.0)}, **more)

    span = 1 - chance
    draws = tuple(sorted(float(value) for value in chance + 0.05 * rng.standard_normal(200)))
    return {
        "bag_of_words": scored(
            chance + 0.03 * span, detail="TF-IDF of words and logistic regression", difference=estimate(0.47 * 2 * span, 0.05)
        ),
        "length": scored(chance - 0.02 * span, detail="the number of characters and of tokens", difference=estimate(0.48 * 2 * span, 0.05)),
        "shuffled_labels": scored(
            chance + 0.003, 0.09, detail="the same probe fitted to shuffled labels", p=1 / 201, site="layers[0]", distribution=draws
        ),
        "random_direction": scored(
            chance - 0.011, 0.12, detail="random directions at the chosen site", p=1 / 201, site="layers[0]", distribution=draws
        ),
        "untrained": scored(
            chance + 0.22 * span,
            0.06,
            detail="the same architecture with random weights",
            difference=estimate(0.38 * 2 * span, 0.06),
            site="layers[0]",
        ),
    }


TOPS = {"cities": 0.985, "neg_cities": 0.03, "larger_than": 0.53}


def transfer(layers, metric, chosen, main):
    rows = []
    for test, top in TOPS.items():
        curve = rise(layers, top)
        for index, site in enumerate(site_names(layers)):
            value = float(np.clip(curve[index], 0, 1))
            own = test == "cities"
            status = {"cities": "yes", "neg_cities": "inverted", "larger_than": "no"}[test]
            rows.append(
                TransferScore(
                    train="cities",
                    test=test,
                    site=site,
                    selected=site == chosen,
                    n=300 if own else 1000,
                    n_excluded=0 if own else 12,
                    **{metric: main if own and site == chosen else estimate(value, 0.03)},
                    cosine=1.0 if own else round(2 * value - 1, 3) * 0.6,
                    mcs=1.0 if own else round(2 * value - 1, 3) * 0.9,
                    status=status if site == chosen else None,
                )
            )
    return tuple(rows)


def histograms(rng, classes):
    edges = tuple(float(edge) for edge in np.linspace(-12, 12, 33))
    shifts = {"cities": 5.0, "neg_cities": -4.5, "larger_than": 0.3}
    result = []
    for name, shift in shifts.items():
        counts = {}
        for index, label in enumerate(classes):
            side = -1 if index == 0 else 1
            counts[str(label)] = tuple(int(count) for count in np.histogram(side * shift + 2 * rng.standard_normal(150), bins=edges)[0])
        result.append(Histogram(table=name, score="score (log-odds of the positive class)", edges=edges, counts=counts, threshold=0.0))
    return tuple(result)


def wrong(classes):
    sentences = ["The city of Lodz is in Portugal.", "The city of Kyiv is in Ukraine.", NASTY, "A long one. " * 40]
    return tuple(
        WrongText(
            table=name,
            row=index,
            text=text,
            label=classes[0],
            predicted=classes[-1],
            score=4.2 - index / 3,
            probability=0.015 + index / 100,
            group=f"city {index}",
        )
        for name in ("cities", "neg_cities")
        for index, text in enumerate(sentences)
    )


LEAKAGE = {
    "severity": "warn",
    "findings": [
        {
            "check": "exact_duplicates",
            "table": "cities",
            "severity": "ok",
            "sentence": "No text appears twice.",
            "numbers": {"n": 0},
            "examples": [],
        },
        {
            "check": "near_duplicates",
            "table": "cities",
            "severity": "warn",
            "sentence": "12 texts differ from another by one word; each pair was kept on one side of the split.",
            "numbers": {"n": 12},
            "examples": [{"row": 3, "text": "The city of <b>Lima</b> is in Peru.", "similarity": 0.9375}],
        },
        {
            "check": "length",
            "table": "neg_cities",
            "severity": "fail",
            "sentence": "The length of the text alone predicts the label with AUROC 0.71.",
            "numbers": {"auroc": 0.71},
            "examples": [],
        },
    ],
}

VERDICT = Verdict(
    readable=True,
    beyond_surface=True,
    transfers={"neg_cities": "inverted", "larger_than": "no"},
    text=(
        "The label of cities can be read at layers[10]: AUROC 0.984 [0.979, 0.989] on held-out cities, far from every baseline.\n"
        "It does not transfer. On neg_cities the same probe says the opposite, and on larger_than it guesses. "
        "So the probe reads something that goes with the label in cities, not what the label means."
    ),
    rules=(
        Rule(
            name="readable",
            rule="yes if the interval's lower end is above chance by 0.05 and p is at most 0.01",
            applied="lower end 0.979, p 0.005",
            outcome="yes",
        ),
        *(
            Rule(
                name="transfers",
                rule="inverted: the whole interval lies below 0.45; yes: it lies above 0.55; no: it lies below half of the advantage.",
                applied=applied,
                outcome=outcome,
            )
            for applied, outcome in (("neg_cities: 0.05 [0.02, 0.08]", "inverted"), ("larger_than: 0.53 [0.50, 0.56]", "no"))
        ),
    ),
)


def planted(*, kind="binary", layers=18, verdict=VERDICT, names=None, seed=0):
    """A report in which everything is filled."""
    rng = np.random.default_rng(seed)
    metric, chance = ("spearman", 0.0) if kind == "number" else ("auroc", 0.5)
    title = {"binary": "AUROC", "multiclass": "macro AUROC (each class against the rest)", "number": "Spearman correlation"}[kind]
    classes = {"binary": (0, 1), "multiclass": ("city", "country", "river"), "number": None}[kind]
    chosen = f"layers[{10 * layers // 18}]"
    trained = rise(layers, 0.985, bottom=0.1 if kind == "number" else 0.55)
    scores = by_site(
        layers, metric, trained=trained, untrained=chance + (trained - chance) * 0.25 + 0.01 * rng.standard_normal(layers + 2), half=0.06
    )
    main = next(point.test for point in scores if point.site == chosen)
    others = (
        {"r2": estimate(0.91)}
        if kind == "number"
        else {
            "accuracy": estimate(0.951),
            "brier": estimate(0.0412),
            "log_loss": estimate(0.152),
            "ece": estimate(0.0231),
        }
    )
    return Report(
        created="2026-10-07T12:00:00+00:00",
        transect="0.1.0",
        command=("transect", "probe", "--model", "demo", "--data", "cities", "--test", "neg_cities", "--test", "larger_than"),
        seed=seed,
        settings={"strengths": [0.01, 0.1, 1.0], "folds": 5, "bootstraps": 200, "permutations": 200, "level": 0.95},
        environment=Environment(python="3.11.9", platform="Linux x86_64", torch="2.13.0", transformers="5.24.0", device="cpu", threads=2),
        model=ModelInfo(
            name="Gemma 3 270M (Q4_K_M)",
            fingerprint="7c1d2e3f4a5b6c7d",
            dtype="float32",
            device="cpu",
            width=640,
            n_layers=layers,
            parameters=268098176,
        ),
        data=DataInfo(
            train=table("cities", kind=kind, classes=classes, note=("12 near duplicates share a group.",)),
            tests=(table("neg_cities", n=1000, kind=kind, classes=classes), table("larger_than", n=1000, kind=kind, classes=classes)),
            split=SplitInfo(
                n_development=1196,
                n_test=300,
                n_development_groups=598,
                n_test_groups=150,
                folds=5,
                rule="Whole groups, stratified by label.",
            ),
        ),
        capture=CaptureInfo(
            sites=site_names(layers),
            tokens="last",
            n_texts=3496,
            n_tokens=41952,
            n_truncated=0,
            seconds=84.9,
            tokens_per_second=494.1,
            verify=VerifyInfo(n=16, largest_difference=2.3e-5),
        ),
        metric=MetricInfo(name=metric, title=title, chance=chance),
        selected=Selected(
            site=chosen,
            probe="Logistic",
            regularization=1.0,
            validation=estimate(0.981),
            corrected=estimate(0.9797),
            optimism=0.0013,
            n_candidates=(layers + 2) * 9,
            rule="The best mean validation score over folds; of those within one standard error, the strongest regularization.",
        ),
        test=Scores(n=300, n_groups=150, **{metric: main}, **others),
        by_site=scores,
        baselines=baselines(metric, chance, rng),
        verdict=verdict,
        leakage=LEAKAGE,
        timing=Timing(total=101.2, stages={"load": 2.1, "capture": 84.9, "sweep": 3.4, "controls": 9.2, "report": 1.6}),
        probes_compared=(
            ProbeScore(probe="Logistic", site=chosen, regularization=1.0, validation=0.981, test=main),
            ProbeScore(probe="LDA", site=chosen, regularization=None, validation=0.979, test=estimate(0.975)),
            ProbeScore(probe="MeanDifference", site="layers[8]", regularization=None, validation=0.951, test=estimate(0.949)),
        ),
        transfer=transfer(layers, metric, chosen, main),
        score_histograms=histograms(rng, ("error",) if classes is None else classes),
        most_wrong=wrong(classes or (1.5, 2.5)),
        notes=("No --verify was asked for.",),
        files=dict(names or {}),
    )
