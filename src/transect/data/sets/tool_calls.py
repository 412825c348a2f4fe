"""``tool_calls``: requests that need a calculator or a search, beside like ones that need neither.

Groups are pairs about the same numbers or the same thing, so those give nothing away; the words of the request do ("right now", "product"),
as they do in life. ``tool`` says which tool: calculator, search or none.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from transect.data.sets.rows import BuiltinRows, as_columns

_SUMS = (
    ("Give the product of {a} and {b}.", "Give the larger of {a} and {b}."),
    ("Give the exact ratio of {a} to {b}.", "Give the last digit of {a} and {b}."),
    ("Divide {a} by {b} and give the remainder.", "Compare {a} with {b} and give the smaller."),
    ("Multiply {a} by {b}.", "Repeat {a} and {b}."),
)
_NEWS = (
    ("What does {x} cost right now?", "What does {x} look like in general?"),
    ("Which news about {x} came out today?", "Which adjectives about {x} come to mind?"),
)
_THINGS = (
    "gold", "wheat", "coffee", "silver", "copper", "cotton", "sugar", "cocoa", "rice", "tin", "zinc", "nickel", "barley", "butter", "wool",
    "salmon", "rubber", "timber", "corn", "aluminum",
)  # fmt: skip
_NOTES = (
    "tool_calls: requests made by rule. Whether a tool is needed is judged for a model without tools in its head: a large model may "
    "multiply four digits by itself. The wording of the request predicts the label, and its length a little (AUROC 0.64); only the numbers "
    "and things are balanced.",
)


def names() -> tuple[str, ...]:
    """The set made here."""
    return ("tool_calls",)


def rows(name: str) -> BuiltinRows:
    """Its columns."""
    del name
    return BuiltinRows(
        columns=as_columns(list(_requests())), notes=_NOTES, meaning=("whether the request needs a tool", "how it is worded")
    )


def _requests() -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(3)
    for at in range(40):
        a, b = (int(number) for number in rng.integers((2000, 200), (9999, 999)))
        for tool, form in zip(("calculator", "none"), _SUMS[at % len(_SUMS)], strict=True):
            yield {"text": form.format(a=a, b=b), "label": int(tool != "none"), "group": f"{a}|{b}", "tool": tool}
    for thing in _THINGS:
        for forms in _NEWS:
            for tool, form in zip(("search", "none"), forms, strict=True):
                yield {"text": form.format(x=thing), "label": int(tool != "none"), "group": thing, "tool": tool}
