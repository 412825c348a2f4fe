"""Everything that transect raises on purpose.

    TransectError
    ├── InputError          a value the caller gave cannot be used          (also a ValueError)
    │   ├── TableError      a file or table of labelled text
    │   ├── SiteError       a place in a model that does not exist there
    │   ├── TokenRuleError  a token rule that cannot be read or applied
    │   └── SampleSizeError too few examples to promise what was asked for; says how many it takes
    ├── ModelError          a model that cannot be loaded or understood
    ├── MismatchError       two things that do not belong together, such as a probe and another model
    ├── StoreError          a file or store of ours that is damaged, foreign or already there
    └── MissingExtraError   an optional dependency that is not installed   (also an ImportError)

Every message says what was expected, what came, and what to do.
"""

import difflib
from collections.abc import Iterable


class TransectError(Exception):
    """The base of every error that transect raises on purpose."""


class InputError(TransectError, ValueError):
    """A value the caller gave cannot be used as it is."""


class TableError(InputError):
    """A file or table of labelled text cannot be used as it is."""


class SiteError(InputError):
    """A site name cannot be read, or names nothing in this model."""


class TokenRuleError(InputError):
    """A token rule cannot be read, or selects nothing in a text."""


class SampleSizeError(InputError):
    """Too few examples to promise what was asked for.

    Args:
        message: what was asked for, what came, and how many it takes.
        needed: the smallest number of independent examples that could do.
        got: how many there are.
    """

    def __init__(self, message: str, *, needed: int, got: int) -> None:
        super().__init__(message)
        self.needed = needed
        self.got = got


class ModelError(TransectError):
    """A model cannot be loaded, or its structure cannot be understood."""


class MismatchError(TransectError):
    """Two things do not belong together, such as a probe and another model."""


class StoreError(TransectError):
    """A file or store that transect wrote is damaged, foreign, or already there."""


class MissingExtraError(TransectError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""


def near_matches(name: str, options: Iterable[str], *, most: int = 3) -> str:
    """The end of an error message: the options nearest to a name that matched nothing.

    >>> near_matches("lable", ["label", "text"])
    "did you mean 'label'? (there is: 'label', 'text')"
    """
    known = sorted({str(option) for option in options})
    if not known:
        return "(there are none)"
    shown = ", ".join(repr(option) for option in known[:12]) + (", ..." if len(known) > 12 else "")
    near = difflib.get_close_matches(name, known, n=most, cutoff=0.5)
    if not near:
        return f"(there is: {shown})"
    return f"did you mean {' or '.join(repr(option) for option in near)}? (there is: {shown})"
