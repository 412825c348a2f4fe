"""The verdict: what a probe's evidence says, by rules that are written down and quoted.

Each question has a yes, a no, and an "unclear" for data that cannot tell. `wording` turns the answers into sentences.
"""

import dataclasses
from typing import Any

from transect.measure import wording
from transect.measure.evidence import Comparison, Evidence
from transect.measure.transfer import MARGIN, TRANSFER_RULES, Status, is_above_chance

LARGEST_P = 0.05
"""A label is readable only where shuffled labels do as well with a p value of at most this."""

NOT_READABLE_BELOW = 0.65
"""An interval wholly below this (on the scale of AUROC) is narrow enough to say that the label is not readable."""

LEAST_GAIN = 0.02
"""A lead over a baseline smaller than this is no lead."""

READABLE_RULE = (
    f"yes: the whole interval of the score on held-out groups lies above {0.5 + MARGIN:.2f}, and shuffled labels reach that score "
    f"with p at most {LARGEST_P}, where that control was run; no: the interval does not, and lies wholly below {NOT_READABLE_BELOW}; "
    "unclear: anything else. Correlations r count as AUROC (r + 1) / 2."
)

SURFACE_RULE = (
    "yes: the label is readable, and the probe leads every surface baseline, and the untrained model where that control was run, by "
    f"at least {LEAST_GAIN}, with the whole paired interval of the lead above 0; no: the label is not readable, or a baseline that "
    "the probe does not lead reaches at least half of the probe's advantage over chance; unclear: anything else."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule of the verdict, and what it gave.

    Args:
        name: ``readable``, ``beyond_surface``, or ``transfers``.
        rule: the rule in words, with its thresholds.
        applied: the numbers it was applied to, in words.
        outcome: what came out.
    """

    name: str
    rule: str
    applied: str
    outcome: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the evidence says.

    Args:
        readable: whether the label can be read; None where that is unclear.
        beyond_surface: whether it is read beyond what the surface of the text and an untrained model give; None where unclear.
        transfers: for each other set: ``yes``, ``no``, ``inverted`` or ``unclear``.
        text: the verdict in a few sentences.
        rules: the rules, quoted, with the numbers they were applied to.
    """

    readable: bool | None
    beyond_surface: bool | None
    transfers: dict[str, Status]
    text: str
    rules: tuple[Rule, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**dataclasses.asdict(self), "rules": [dataclasses.asdict(rule) for rule in self.rules]}


def verdict(evidence: Evidence) -> Verdict:
    """Apply the rules to the evidence and say what it means.

    Examples:
        >>> from transect.measure import Estimate, Evidence
        >>> result = verdict(Evidence(train="reviews", site="layers[5]", test=Estimate(0.51, 0.44, 0.58, n=200, groups=200)))
        >>> result.readable
        False
        >>> print(result.text.split(":")[0])
        The label of reviews is not readable at layers[5]
    """
    readable = is_readable(evidence)
    beyond = is_beyond_surface(evidence, readable)
    transfers: dict[str, Status] = {transfer.test: transfer.status for transfer in evidence.transfers}
    return Verdict(
        readable=readable,
        beyond_surface=beyond,
        transfers=transfers,
        text=wording.text(evidence, readable=readable, beyond_surface=beyond, unbeaten=unbeaten(evidence)),
        rules=_rules(evidence, readable, beyond),
    )


def is_readable(evidence: Evidence) -> bool | None:
    """Whether the label can be read at the chosen site, by `READABLE_RULE`."""
    above = is_above_chance(evidence.test, evidence.metric)
    if above and (evidence.permutation_p is None or evidence.permutation_p <= LARGEST_P):
        return True
    if not above and evidence.metric.on_auroc_scale(evidence.test.high) < NOT_READABLE_BELOW:
        return False
    return None


def is_beyond_surface(evidence: Evidence, readable: bool | None) -> bool | None:
    """Whether the probe reads more than the surface and an untrained model give, by `SURFACE_RULE`."""
    if readable is not True or not evidence.surface:
        return False if readable is False else None
    rivals = unbeaten(evidence)
    if not rivals:
        return True
    return False if any(is_strong(rival, evidence) for rival in rivals) else None


def unbeaten(evidence: Evidence) -> tuple[Comparison, ...]:
    """The baselines, and the untrained model, that the probe does not lead."""
    rivals = (*evidence.surface, *(() if evidence.untrained is None else (evidence.untrained,)))
    return tuple(rival for rival in rivals if not (rival.difference.low > 0 and rival.difference.value >= LEAST_GAIN))


def is_strong(rival: Comparison, evidence: Evidence) -> bool:
    """Whether a baseline reaches at least half of the probe's advantage over chance."""
    scale = evidence.metric.on_auroc_scale
    return scale(rival.estimate.value) - 0.5 >= (scale(evidence.test.value) - 0.5) / 2


def _rules(evidence: Evidence, readable: bool | None, beyond: bool | None) -> tuple[Rule, ...]:
    p = "not shuffled" if evidence.permutation_p is None else f"p = {evidence.permutation_p:.3g}"
    rivals = (*evidence.surface, *(() if evidence.untrained is None else (evidence.untrained,)))
    leads = "; ".join(f"{rival.title}: {rival.estimate}, lead {rival.difference}" for rival in rivals) or "no baselines were run"
    answers = {True: "yes", False: "no", None: "unclear"}
    home = f"at home {evidence.test}"
    return (
        Rule(name="readable", rule=READABLE_RULE, applied=f"{evidence.metric.title} {evidence.test}, {p}", outcome=answers[readable]),
        Rule(name="beyond_surface", rule=SURFACE_RULE, applied=leads, outcome=answers[beyond]),
        *(
            Rule(name="transfers", rule=" ".join(TRANSFER_RULES.values()), applied=f"{t.test}: {t.estimate}, {home}", outcome=t.status)
            for t in evidence.transfers
        ),
    )
