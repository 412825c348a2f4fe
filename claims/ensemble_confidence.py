"""Answers weighted by a confidence that is read from hidden states, against a vote and a mean of probabilities."""

import numpy as np

import transect
from claims import Claim, Result
from claims._held_out import fit
from claims._questions import Kind, questions
from claims._shared import demo_model
from transect.capture import next_token
from transect.data import split_by_group
from transect.decide import confidence_features, evaluate_ensemble

CLAIM = Claim(
    paper="Guo 2025, LENS: Learning Ensemble Confidence from Neural States for Multi-LLM Answer Integration",
    says="Weighting each model's answer by a linear confidence from its hidden states and probabilities beats voting and mean probability.",
    setting="Gemma 3 270M under three ways of asking, in place of several models; about 190 questions about books and elements with four "
    "options; confidences from layers[9] and the probabilities of the options, fitted on half of the answers and tested on the other half",
    reproduced_when="accuracy is above that of the majority vote and of the mean probability, each with a paired interval above 0",
)
SITE, OPTIONS = "layers[9]", 4
SIZES = {"books": 107, "elements": 80}
ASKING = {
    "books": ("Question: Who wrote the book {}?\nAnswer:", "The author of {} is", "{} is a famous book. It was written by"),
    "elements": (
        "Question: What is the chemical symbol of {}?\nAnswer:",
        "The chemical symbol of {} is",
        "In the periodic table {} stands as",
    ),
}


def run() -> Result:
    """Ask in three ways, fit a confidence for each, and combine on held-out questions."""
    draw = np.random.default_rng(0)
    kinds = [questions(name, n) for name, n in SIZES.items()]
    options = [_options(kind, draw) for kind in kinds]
    labels = np.concatenate([right for _, right in options])
    groups = np.concatenate([kind.groups for kind in kinds])
    of_kind = np.repeat(np.arange(len(kinds)), [len(kind.subjects) for kind in kinds])
    test = split_by_group(groups, of_kind, test=0.5, seed=0)
    shares, trust, rights = [], [], []
    for way in range(3):
        states, chances = [], []
        for kind, (tokens, _) in zip(kinds, options, strict=True):
            x, p = _ask(kind, ASKING[kind.name][way], tokens)
            states.append(x)
            chances.append(p)
        p = np.concatenate(chances)
        right = (p.argmax(axis=1) == labels).astype(np.int64)
        features = confidence_features(np.concatenate(states), p)
        trust.append(fit(features[~test], right[~test], C=0.01).probabilities(features[test]))
        shares.append(p)
        rights.append(float(right[~test].mean()))
    held_out = np.stack(shares)[:, test]
    best = int(np.argmax(rights))
    found = evaluate_ensemble(held_out, np.stack(trust), labels[test], best_single=best, groups=groups[test])
    numbers = {
        "LENS": found.accuracy.value,
        "majority": found.majority.value,
        "mean probability": found.mean_probability.value,
        "best single": found.singles[found.best_single].value,
        "over majority": found.over_majority.value,
        "over majority, low": found.over_majority.low,
        "over mean probability": found.over_mean_probability.value,
        "over mean probability, low": found.over_mean_probability.low,
        "over best single": found.over_best_single.value,
        "questions": float(test.sum()),
    }
    held = found.over_majority.low > 0 and found.over_mean_probability.low > 0
    sentence = (
        f"On {int(test.sum())} held-out questions weighted answers are right in {found.accuracy}, the vote in {found.majority.value:.2f} "
        f"(difference {found.over_majority}), the mean probability in {found.mean_probability.value:.2f} (difference "
        f"{found.over_mean_probability})."
    )
    return Result(numbers=numbers, reproduced=held, sentence=sentence)


def _options(kind: Kind, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Tokens ``[n, 4]`` of four answers of the kind, and which of them is right."""
    every = np.array(sorted(kind.first.values()))
    right = draw.integers(OPTIONS, size=len(kind.gold))
    tokens = np.stack([draw.choice(every[every != gold], OPTIONS, replace=False) for gold in kind.gold])
    tokens[np.arange(len(right)), right] = kind.gold
    return tokens, right


def _ask(kind: Kind, asking: str, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hidden states ``[n, d]`` and probabilities ``[n, 4]`` of the options."""
    candidates = sorted(kind.first.values())
    prompts = [asking.format(subject) for subject in kind.subjects]
    logs = next_token(demo_model(), prompts, candidates=candidates).log_probabilities
    own = np.take_along_axis(logs, np.searchsorted(candidates, tokens), axis=1)
    chances = np.exp(own - own.max(axis=1, keepdims=True))
    states = transect.capture(demo_model(), prompts, sites=SITE)[SITE].double().numpy()
    return states, chances / chances.sum(axis=1, keepdims=True)
