"""How checks fail: with the clause that does not hold, and by how much."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def must(holds: Any, message: str) -> None:
    """Fail with the message where something does not hold."""
    if not holds:
        raise AssertionError(message)


@contextmanager
def refused(message: str, kind: type[Exception], *, says: str = "") -> Iterator[None]:
    """Fail with the message where what is inside is not refused by an error of this kind that says this."""
    try:
        yield
    except kind as error:
        must(says in str(error), f"{message.split(':', maxsplit=1)[0]}: the error does not say {says!r}: {error}")
    except Exception as error:
        raise AssertionError(f"{message}, or fails with {type(error).__name__} instead of {kind.__name__}: {error}") from error
    else:
        raise AssertionError(message)


@contextmanager
def untouched(what: str, *arrays: np.ndarray) -> Iterator[None]:
    """Fail where what is inside changes an array or a global random state."""
    copies = [array.copy() for array in arrays]
    state, old_state = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002 - it must be left alone, so it is looked at
    yield
    must(
        all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(arrays, copies, strict=True)),
        f"purity: {what} changed its input",
    )
    must(torch.equal(state, torch.get_rng_state()), "purity: torch's random state was touched")
    now = np.random.get_state()  # noqa: NPY002
    must(all(np.array_equal(a, b) for a, b in zip(old_state, now, strict=True)), "purity: numpy's random state was touched")
