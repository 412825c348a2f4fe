"""Statements about unknown things shake a probe's boundary of truth more than statements about well-known fiction."""

import numpy as np

import transect
from claims import Claim, Result
from claims._shared import SITES, demo_model
from transect.data import split_by_group
from transect.measure import relabelling_stability

CLAIM = Claim(
    paper="Representational stability of truth in large language models (2025)",
    says="When neither statements change sides, unfamiliar ones flip up to 40% of the truth judgements, familiar fictional ones at most 8.2%.",
    setting="Gemma 3 270M, cities_neither, last token, five sites; 80 true and 80 false statements, half of their groups held out; 40 made-up "
    "cities against 40 of well-known fiction (a model of this size may not know the fiction)",
    reproduced_when="on average over sites unfamiliar statements flip at least 0.05 more judgements than fictional ones, and at least as many at four "
    "of the five sites",
)
SORTS = ("unfamiliar", "fictional")


def run() -> Result:
    """The largest of the three changes of side for each sort, at each site."""
    table = transect.read_table("cities_neither")
    acts = transect.capture(demo_model(), table, sites=SITES)
    words, groups = np.asarray(table.labels).astype(str), np.asarray(table.groups)
    firm = words != "neither"
    held = np.zeros(len(table), dtype=bool)
    held[firm] = split_by_group(groups[firm], (words[firm] == "true").astype(np.int64), test=0.5, seed=0)
    numbers: dict[str, float] = {}
    flips: dict[str, list[float]] = {sort: [] for sort in SORTS}
    for site in SITES:
        for sort in SORTS:
            rows = np.flatnonzero(firm | (table.column("sort") == sort))
            found = relabelling_stability(acts[site][rows], words[rows], groups=groups[rows], held_out=held[rows], resamples=500)
            most = found.largest
            flips[sort].append(most.flipped.value)
            numbers |= {f"{site} {sort}": most.flipped.value, f"{site} {sort}, degrees": most.degrees}
            numbers[f"{site} AUROC without neither"] = found.auroc["left_out"].value
    made_up, fiction = (float(np.mean(flips[sort])) for sort in SORTS)
    ahead = sum(one >= other for one, other in zip(*flips.values(), strict=True))
    numbers |= {"mean unfamiliar": made_up, "mean fictional": fiction, "sites where unfamiliar flips as many or more": float(ahead)}
    sentence = (
        f"Over {len(SITES)} sites made-up cities flip {made_up:.0%} of the held-out judgements and fictional ones {fiction:.0%}; "
        f"the made-up ones flip as many or more at {ahead} sites."
    )
    return Result(numbers=numbers, reproduced=made_up >= fiction + 0.05 and ahead >= 4, sentence=sentence)
