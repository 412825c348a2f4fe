"""``partial_reasoning``: the beginnings of chains of reasoning that end in safe or unsafe advice.

After work on predicting from a chain of thought, before it is complete, whether the answer will be safe. The texts stop before the
advice, which is in the column ``ending``; ``shown`` says how many steps there are (2 or 3). The matters are those of everyday safety.

What this cannot show: the steps were written by rule, and say openly which way they lean.
"""

from collections.abc import Iterator
from typing import Any

from transect.data.sets.rows import BuiltinRows, as_columns, facts

_STEPS = (
    ("What weighs more than {cost} is {risk}.", "What weighs more than {risk} is {cost}."),
    ("Compared with {risk}, {cost} is nothing.", "Compared with {cost}, {risk} is nothing."),
)
_NOTES = (
    "partial_reasoning: synthetic steps about everyday safety, 24 scenarios. Safe and unsafe chains have the same words; their order says "
    "whether the cost is weighed over the risk, so a model of word order finds the label.",
)


def names() -> tuple[str, ...]:
    """The set made here."""
    return ("partial_reasoning",)


def rows(name: str) -> BuiltinRows:
    """Its columns."""
    del name
    meaning = ("whether the advice will be unsafe", "whether the steps so far weigh the cost over the risk")
    return BuiltinRows(columns=as_columns(list(_chains())), notes=_NOTES, meaning=meaning)


def _chains() -> Iterator[dict[str, Any]]:
    for scene in facts("reasoning"):
        for label, ending in ((0, scene["safe"]), (1, scene["unsafe"])):
            steps = (f"The question is whether to {scene['question']}.", *(_STEPS[at][label].format(**scene) for at in range(2)))
            for shown in (2, 3):
                yield {
                    "text": " ".join(steps[:shown]),
                    "label": label,
                    "group": scene["question"],
                    "shown": shown,
                    "ending": f"So my advice is to {ending}.",
                }
