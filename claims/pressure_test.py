"""Pressure on a near-perfect probe: other styles, a refit that has seen styles, one direction only, and the entropy taken out."""

import numpy as np
import torch

import transect
from claims import Claim, Result
from claims._chats import fit_probe, rows_of
from claims._shared import demo_model
from transect.capture import next_token
from transect.data import rewrite_table, split_by_group, style_rewritings
from transect.measure import auroc, compare_ranks, residualised_auroc

CLAIM = Claim(
    paper="Pressure-testing deception probes across the Gemma 3 family (2026)",
    says="AUROC is 0.998 or more on clean text and collapses under other styles; refits with styles recover 0.98 on unseen styles; one "
    "direction has only 0.61 to 0.80; taking the output entropy out changes AUROC by at most 0.004.",
    setting="Gemma 3 270M, 160 statements about cities that are true or false (of false statements, not of deception), last token, layers[9] and two "
    "other sites for the styles; eight styles made by rule, 16 held-out groups; entropy of the next token",
    reproduced_when="clean AUROC is at least 0.95, some style costs at least 0.1, refits with the other styles regain at least half of the mean "
    "loss, one direction has at most 0.8 and less than the full probe, and taking the entropy out changes AUROC by at most 0.02",
)
SITES = ("layers[6]", "layers[9]", "layers[12]")
MAIN = "layers[9]"
ROWS = 160


def run() -> Result:
    """Read the statements in every style, then press."""
    model = demo_model()
    clean = transect.read_table("cities").take(np.arange(ROWS))
    groups, codes = np.asarray(clean.groups), clean.codes
    test = split_by_group(groups, codes, test=0.4, seed=0)
    own = transect.capture(model, clean, sites=SITES)
    styles = {}
    for rewriting in style_rewritings():
        done = rewrite_table(clean, rewriting, seed=0)
        if done.table is not None:
            acts = transect.capture(model, done.table, sites=SITES)
            styles[rewriting.name] = (np.asarray(done.rows), done.table.codes_for((False, True)), {site: acts[site] for site in SITES})
    numbers: dict[str, float] = {}
    for site in SITES:
        probe = fit_probe(rows_of(own[site], ~test), codes[~test])
        alone, taught = {}, {}
        for name, (source, labels, acts) in styles.items():
            held = test[source]
            others = [styles[other] for other in styles if other != name]
            x = torch.cat([rows_of(own[site], ~test), *(rows_of(more[site], ~test[rows]) for rows, _, more in others)])
            y = np.concatenate([codes[~test], *(more[~test[rows]] for rows, more, _ in others)])
            seen, truth = rows_of(acts[site], held), labels[held] == 1
            alone[name] = auroc(probe.scores(seen), truth)
            taught[name] = auroc(fit_probe(x, y).scores(seen), truth)
        numbers |= {
            f"{site} clean": auroc(probe.scores(rows_of(own[site], test)), codes[test] == 1),
            f"{site} mean of styles": float(np.mean(list(alone.values()))),
            f"{site} lowest style": min(alone.values()),
            f"{site} mean of unseen styles, refitted with the others": float(np.mean(list(taught.values()))),
        }
    ranks = compare_ranks(own[MAIN], codes, ranks=(1, 2, 3, 5, 10), groups=groups, held_out=test, shuffles=100, resamples=500)
    scores = fit_probe(rows_of(own[MAIN], ~test), codes[~test]).scores(own[MAIN])
    entropy = next_token(model, clean).entropy
    left = residualised_auroc(
        scores[test], codes[test] == 1, entropy[test], train_scores=scores[~test], train_covariates=entropy[~test], groups=groups[test], resamples=500
    )  # fmt: skip
    single, change = ranks.ranks[0].auroc.value, left.change.value
    numbers |= {
        "one direction": single,
        "all directions": ranks.full.value,
        "share of one direction": ranks.single_share,
        "change without entropy": change,
        "change without entropy, low end": left.change.low,
        "change without entropy, high end": left.change.high,
        "|rho| with entropy": left.correlations[0].value,
    }
    first, mean, lowest, again = (numbers[name] for name in list(numbers) if name.startswith(MAIN))
    checks = {
        "near perfect when clean": first >= 0.95,
        "collapse under a style": lowest <= first - 0.1,
        "recovery by refits": again >= (first + mean) / 2,
        "one direction is not enough": single <= 0.8 and single < ranks.full.value,
        "no proxy of entropy": abs(change) <= 0.02,
    }
    failed = [name for name, held in checks.items() if not held]
    sentence = (
        f"At {MAIN} the clean AUROC is {first:.2f}, the mean over styles {mean:.2f} (lowest {lowest:.2f}) and {again:.2f} once fitted to the other styles; "
        f"one direction has {single:.2f} of {ranks.full.value:.2f}, and without entropy it changes by {change:+.3f} (at {SITES[0]} the lowest "
        f"style has {numbers[f'{SITES[0]} lowest style']:.2f}); "
        + (f"what does not hold here: {', '.join(failed)}." if failed else "all five findings hold.")
    )
    return Result(numbers=numbers, reproduced=not failed, sentence=sentence)
