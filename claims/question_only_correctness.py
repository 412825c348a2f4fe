"""Whether an answer will be right can be read from the question alone; for arithmetic it cannot."""

import numpy as np

from claims import Claim, Result
from claims._held_out import fit, folds_of, held_out
from claims._questions import Asked, asked
from transect.measure import auroc, auroc_statistic, fit_bag_of_words, fit_length, interval

CLAIM = Claim(
    paper="No Answer Needed: predicting LLM answer accuracy from question-only linear probes (2025)",
    says="Probes fitted on trivia, read after the question and before any answer token, predict success on other knowledge questions, "
    "beating black-box baselines, but falter on arithmetic.",
    setting="Gemma 3 270M, layers[9], fixed beforehand; the answer is the likeliest first token among the answers of its kind; fitted on "
    "questions about cities and books, tested on held-out answers of both, on elements and animals, and on sums of one digit (answered "
    "after the sum is said again); "
    "baselines are "
    "question length and bag of words (fitted likewise), the top token's probability, and the entropy of the first token",
    reproduced_when="mean AUROC over cities and books, and over elements and animals, is above 0.6 and above that of every baseline, and AUROC "
    "on sums is at least 0.05 below that on elements and animals",
)
SIZES = {"cities": 160, "books": 110, "elements": 75, "animals": 75, "sums": 72}
HOME, AWAY, SITE = ("cities", "books"), ("elements", "animals"), "layers[9]"


def run() -> Result:
    """Fit at home, and test there on held-out answers and on the other kinds."""
    kinds = {name: asked(name, n) for name, n in SIZES.items()}
    x = np.concatenate([kinds[name].activations[SITE].double().numpy() for name in HOME])
    right = np.concatenate([kinds[name].right for name in HOME]).astype(np.int64)
    groups = np.concatenate([kinds[name].kind.groups for name in HOME])
    texts = [text for name in HOME for text in kinds[name].kind.texts]
    of_kind = np.repeat(HOME, [len(kinds[name].right) for name in HOME])
    folds, probe = folds_of(groups, right), fit(x, right, C=0.01)
    length, words = fit_length(texts, right), fit_bag_of_words(texts, right, groups=groups)
    own = {"probe": held_out(x, right, folds, C=0.01), "words": np.empty(len(right)), "length": np.empty(len(right))}
    for fold in np.unique(folds):
        held, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        there, here = [texts[row] for row in rest], [texts[row] for row in held]
        own["words"][held] = fit_bag_of_words(there, right[rest], groups=groups[rest]).scores(here)
        own["length"][held] = fit_length(there, right[rest]).scores(here)
    scores = {name: {key: values[of_kind == name] for key, values in own.items()} for name in HOME}
    for name in (*AWAY, "sums"):
        one = kinds[name]
        outside = {"words": words.scores(one.kind.texts), "length": length.scores(one.kind.texts)}
        scores[name] = {"probe": probe.scores(one.activations[SITE]), **outside}
    numbers = {f"right, {name}": float(one.right.mean()) for name, one in kinds.items()}
    found: dict[str, dict[str, float]] = {}
    for name, one in kinds.items():
        every = {**scores[name], "top probability": one.top_probability, "entropy": -one.entropy}
        found[name] = {key: auroc(values, one.right) for key, values in every.items()}
        numbers |= {f"{name}, {key}": value for key, value in found[name].items()}
    means = {key: {part: _mean(found, names, key) for part, names in (("home", HOME), ("away", AWAY))} for key in found["sums"]}
    numbers |= {f"mean {part}, {key}": value for key, parts in means.items() for part, value in parts.items()}
    ours = means.pop("probe")
    best = {part: max(parts[part] for parts in means.values()) for part in ours}
    sums = found["sums"]["probe"]
    held = all(ours[part] > max(0.6, best[part]) for part in ours) and sums <= ours["away"] - 0.05
    sentence = (
        f"A probe of the question predicts success with a mean AUROC of {ours['home']:.2f} on cities and books ({_best(means, 'home')} "
        f"reaches {best['home']:.2f}), {ours['away']:.2f} on elements and animals ({_best(means, 'away')} reaches {best['away']:.2f}), and "
        f"{_with_interval(kinds['sums'], scores['sums']['probe'])} on sums."
    )
    return Result(numbers=numbers, reproduced=held, sentence=sentence)


def _best(means: dict[str, dict[str, float]], part: str) -> str:
    return f"the best baseline, {max(means, key=lambda key: means[key][part])},"


def _mean(found: dict[str, dict[str, float]], names: tuple[str, ...], key: str) -> float:
    return float(np.mean([found[name][key] for name in names]))


def _with_interval(one: Asked, scores: np.ndarray) -> str:
    return str(interval(auroc_statistic(scores, one.right), groups=np.array(one.kind.subjects)))
