"""Whether a tool will be called can be read before anything is generated."""

import numpy as np

import transect
from claims import Claim, Result
from claims._held_out import folds_of, held_out
from claims._shared import SITES, demo_model
from transect.capture import next_token
from transect.measure import auroc, auroc_interval, correct_for_choosing, fit_bag_of_words

CLAIM = Claim(
    paper="Early-encoded tool-calling decisions in reasoning models (2026)",
    says="A linear probe decodes tool-calling decisions from pre-generation activations with very high confidence.",
    setting="Gemma 3 270M, the 160 requests of `tool_calls`, read at the last token of a prompt with two worked examples, at five sites; the "
    "decision is whether ' tool' or ' answer' is likelier as the next word; site chosen on other groups than measured. Only the "
    "decoding is measured: steering is not, and this model does not reason",
    reproduced_when="the model decides both ways in at least a tenth of the requests, and the interval of the held-out AUROC for its own "
    "decision lies above 0.9",
)
PROMPT = "Request: Name a colour.\nNeeds: answer\nRequest: What is the weather now?\nNeeds: tool\nRequest: {}\nNeeds:"


def run() -> Result:
    """Probe the model's own decision and the label, beside a bag of words."""
    model, table = demo_model(), transect.read_table("tool_calls")
    prompts = [PROMPT.format(text) for text in table.texts]
    asked = next_token(model, prompts, candidates=[" tool", " answer"]).log_probabilities
    calls, groups = (asked[:, 0] > asked[:, 1]).astype(np.int64), np.asarray(table.groups)
    share = float(calls.mean())
    acts = transect.capture(model, prompts, sites=SITES)
    numbers = {"share of tool calls": share, "decision agrees with the label": float((calls == table.codes).mean())}
    words = []
    for name, codes in (("own decision", calls), ("needs a tool", table.codes)):
        if min(codes.sum(), len(codes) - codes.sum()) < 16:
            continue
        folds = folds_of(groups, codes)
        scores = np.stack([held_out(acts[site], codes, folds, C=0.01) for site in SITES])
        found = correct_for_choosing(scores[:, None, :], codes, folds, strengths=[0.01], groups=groups).corrected
        bag = _bag(table.texts, codes, groups, folds)
        numbers |= {f"{name}, probe": found.value, f"{name}, probe, low": found.low, f"{name}, bag of words": auroc(bag, codes)}
        words.append(f"{name}: {found} by the probe, {auroc_interval(bag, codes, groups=groups)} by a bag of words")
    held = 0.1 <= share <= 0.9 and numbers.get("own decision, probe, low", 0.0) > 0.9
    close = numbers.get("own decision, bag of words", 0.0) > numbers.get("own decision, probe, low", 1.0)
    caution = ". Words alone do as well within the interval, so here the probe says little beyond the wording" if close else ""
    sentence = (
        f"The model calls a tool in {share:.0%} of the requests and agrees with the label in "
        f"{numbers['decision agrees with the label']:.0%}; held-out AUROC before generation, {'; '.join(words)}{caution}."
    )
    return Result(numbers=numbers, reproduced=held, sentence=sentence)


def _bag(texts: tuple[str, ...], codes: np.ndarray, groups: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """``[n]`` scores of bags of words fitted on the other folds, each fold's with mean 0."""
    found = np.empty(len(codes))
    for fold in np.unique(folds):
        held, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        fitted = fit_bag_of_words([texts[row] for row in rest], codes[rest], groups=groups[rest])
        scores = fitted.scores([texts[row] for row in held])
        found[held] = (scores - scores.mean()) / (scores.std() or 1.0)
    return found
