"""By depth: chance early, a peak in the middle, a slight decline; and many directions that each hold the label."""

import numpy as np

import transect
from claims import Claim, Result
from claims._chats import fit_probe, rows_of
from claims._shared import demo_model
from transect.data import split_by_group
from transect.measure import accuracy, count_directions

CLAIM = Claim(
    paper="Caught in the Act: a mechanistic approach to detecting deception (2025)",
    says="Probe accuracy is near chance in early layers, peaks in middle ones and declines slightly in later ones; iterative null-space "
    "projection finds 20 to nearly 100 directions. Models of 1.5B and less are at chance.",
    setting="Gemma 3 270M, 568 true and false statements about cities (plausible wrong answers, not arguments), last token, all 18 blocks; 30% of "
    "the groups held out; directions counted until the held-out AUROC of the next is at chance (p above 0.05)",
    reproduced_when="the first two blocks have an accuracy of at most 0.6 and a block of the middle third the best, at least 0.1 more; the last "
    "block has less than the best; and at some block at least 20 directions are counted",
)
COUNTED = (0, 3, 6, 9, 12, 15, 17)


def run() -> Result:
    """A probe for every block, a count for some."""
    table = transect.read_table("cities")
    acts = transect.capture(demo_model(), table, sites="layers[*]")
    groups, codes = np.asarray(table.groups), table.codes
    test = split_by_group(groups, codes, test=0.3, seed=0)
    profile = []
    for site in acts.sites:
        probe = fit_probe(rows_of(acts[site], ~test), codes[~test])
        profile.append(accuracy((probe.scores(rows_of(acts[site], test)) > 0).astype(int), codes[test]))
    numbers = {f"accuracy {site}": value for site, value in zip(acts.sites, profile, strict=True)}
    counts = {}
    for block in COUNTED:
        found = count_directions(acts[acts.sites[block]], codes, groups=groups, held_out=test, most=60, shuffles=199, resamples=0)
        counts[block] = found.n_directions
        numbers[f"directions {acts.sites[block]}"] = float(found.n_directions)
    best, depth = int(np.argmax(profile)), len(profile)
    early, most = max(profile[:2]), max(counts.values())
    staged = early <= 0.6 and depth / 3 <= best < 2 * depth / 3 and profile[best] >= early + 0.1 and profile[-1] < profile[best]
    stages = "the three stages are there" if staged else "the three stages are not"
    sentence = (
        f"Accuracy is {profile[0]:.2f} and {profile[1]:.2f} in the first two blocks, best at {acts.sites[best]} of {depth} ({profile[best]:.2f}) and "
        f"{profile[-1]:.2f} in the last: {stages}; the most directions counted at a block are {most}, where the paper counts 20 to 100 in larger models."
    )
    return Result(numbers=numbers, reproduced=staged and most >= 20, sentence=sentence)
