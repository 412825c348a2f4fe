"""Success is predicted before generation, and questions are sent to the cheap or the dear way of answering accordingly."""

import numpy as np

from claims import Claim, Result
from claims._held_out import fit, folds_of
from claims._questions import EPISODE_KINDS, EPISODE_SITE, EPISODE_SIZE, asked, episodes
from transect.decide import evaluate_routing
from transect.measure import auroc, fit_bag_of_words, fit_length

CLAIM = Claim(
    paper="LLMs Encode Their Failures: Predicting Success from Pre-Generation Activations (2026)",
    says="Success probes on pre-generation activations beat length and TF-IDF, and routing by them exceeds the best model at lower cost.",
    setting="Gemma 3 270M answering about 190 questions in two ways in place of two models: the bare question, and after three worked examples "
    "at about five times the tokens; success is the greedy first token; both probes read layers[9] at the end of the bare question, whose "
    "cost the dear way pays too; everything out of fold",
    reproduced_when="both probes' AUROC is above that of length and of TF-IDF, and routing is more accurate than the best way alone and saves "
    "cost with an interval above 0",
)
WAYS = ("bare", "with examples")


def run() -> Result:
    """Fit and route out of fold."""
    played = episodes()
    first = {name: asked(name, EPISODE_SIZE) for name in EPISODE_KINDS}
    each = list(zip(played.kinds.tolist(), played.index.tolist(), strict=True))
    x = np.stack([first[kind].activations[EPISODE_SITE][at].double().numpy() for kind, at in each])
    bare = np.array([first[kind].greedy[at] for kind, at in each])
    texts = [first[kind].kind.texts[at] for kind, at in each]
    cheap = np.array([first[kind].n_tokens[at] for kind, at in each], dtype=np.float64)
    success = np.stack([bare, played.success], axis=1).astype(np.int64)
    chances = np.empty(success.shape)
    numbers: dict[str, float] = {}
    better = []
    for way, name in enumerate(WAYS):
        right = success[:, way]
        folds = folds_of(played.groups, right)
        scores = {"probe": np.empty(len(right)), "length": np.empty(len(right)), "TF-IDF": np.empty(len(right))}
        for fold in np.unique(folds):
            held, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
            there, here = [texts[row] for row in rest], [texts[row] for row in held]
            probe = fit(x[rest], right[rest], C=0.01)
            chances[held, way] = probe.probabilities(x[held])
            scores["probe"][held] = probe.scores(x[held])
            scores["length"][held] = fit_length(there, right[rest]).scores(here)
            scores["TF-IDF"][held] = fit_bag_of_words(there, right[rest], groups=played.groups[rest]).scores(here)
        found = {key: auroc(values, right) for key, values in scores.items()}
        better.append(found["probe"] > max(found["length"], found["TF-IDF"]))
        numbers |= {f"{name}, {key}": value for key, value in found.items()}
    costs = np.stack([cheap, cheap + played.costs.sum(axis=1)], axis=1)
    routed = evaluate_routing(chances, success, costs, models=WAYS, groups=played.groups)
    for point in (*routed.singles, routed.chosen, routed.oracle):
        numbers |= {f"{point.name}: accuracy": point.accuracy.value, f"{point.name}: cost": point.cost.value}
    numbers |= {"accuracy gap": routed.accuracy_gap.value, "accuracy gap, low": routed.accuracy_gap.low}
    numbers |= {"saving": routed.saving.value, "saving, low": routed.saving.low, "a coin at this cost": routed.coin}
    held = all(better) and routed.accuracy_gap.value > 0 and routed.saving.low > 0
    sentence = (
        f"Probes predict success with AUROC {numbers['bare, probe']:.2f} and {numbers['with examples, probe']:.2f} (TF-IDF "
        f"{numbers['bare, TF-IDF']:.2f} and {numbers['with examples, TF-IDF']:.2f}); routing by them is right in {routed.chosen.accuracy}, "
        f"{routed.accuracy_gap} more than the best way alone, and saves {routed.saving} of its cost (a coin at this cost: {routed.coin:.2f})"
        f"{'.' if routed.accuracy_gap.low > 0 else ': the saving is certain, the gain in accuracy is not told from none.'}"
    )
    return Result(numbers=numbers, reproduced=held, sentence=sentence)
