"""Episodes that are failing are ended early at several gates, while a certified share of the good ones lives on."""

import numpy as np

from claims import Claim, Result
from claims._held_out import fit
from claims._questions import EPISODE_KINDS, ROUNDS, episodes
from transect.data import split_by_group
from transect.decide import stop_early
from transect.measure import auroc

CLAIM = Claim(
    paper="Early failure prediction and inference-time early stopping for LLM agents using hidden-state probes (2026)",
    says="A cascade of gates on hidden-state probes keeps a certified recall of successful episodes and saves more than the best single gate.",
    setting="Gemma 3 270M, about 190 short episodes in place of an agent's: a question, three worked examples as rounds, the question again and "
    "its answer; success is the greedy first token; probes of layers[9] after each round, fitted on a third of the answers; recall 0.8, "
    "because the few episodes cannot certify 0.9",
    reproduced_when="the recall of the cascade is certified, and it saves more than the best single gate with a paired interval above 0",
)


def run() -> Result:
    """Fit a probe for each round on some episodes, choose gates on others, certify on the rest."""
    played = episodes()
    success = played.success.astype(np.int64)
    held_out = split_by_group(played.groups, success, test=0.67, seed=0)
    scores = np.stack(
        [
            -fit(played.rounds[~held_out, at], success[~held_out], C=0.01).scores(played.rounds[held_out, at])  # higher for failing
            for at in range(ROUNDS)
        ],
        axis=1,
    )
    right, kinds = success[held_out], played.kinds[held_out]
    found = stop_early(scores, right, costs=played.costs[held_out], target=0.8, groups=played.groups[held_out])
    rates = {kind: float(success[~held_out & (played.kinds == kind)].mean()) for kind in EPISODE_KINDS}
    certifying = found.certificate.recall.n or 0
    numbers = {"independent successes that certify": float(certifying), "success rate": float(right.mean()), "episodes": float(len(right))}
    numbers |= {f"AUROC after round {at}": auroc(-scores[:, at], right) for at in range(ROUNDS)}
    numbers["AUROC of the kind of question alone"] = auroc(np.array([rates[kind] for kind in kinds]), right)
    for name, one in (("cascade", found.certificate), ("single gate", found.single_certificate)):
        numbers |= {f"{name}, recall": one.recall.value, f"{name}, recall, low": one.recall.low, f"{name}, saved": one.saved.value}
    numbers |= {"gain": found.gain.value, "gain, low": found.gain.low, "gain, high": found.gain.high}
    held = found.certificate.holds and found.gain.low > 0
    certified = "certified" if found.certificate.holds else "not certified"
    sentence = (
        f"The cascade keeps {found.certificate.recall.value:.2f} of the successes (at least {found.certificate.recall.low:.2f}; 0.8 is "
        f"{certified} by {certifying} independent successes) and saves {found.certificate.saved} of the tokens, {found.gain} more than "
        f"the best single gate; the probe after the question has AUROC {numbers['AUROC after round 0']:.2f}, the kind of question alone "
        f"{numbers['AUROC of the kind of question alone']:.2f}."
    )
    return Result(numbers=numbers, reproduced=held, sentence=sentence)
