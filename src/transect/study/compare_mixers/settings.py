"""What is compared, and how it is trained."""

import dataclasses
import inspect
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transect.errors import InputError, near_matches
from transect.mixers import tasks
from transect.mixers.models.kinds import layer_kinds, resolve
from transect.mixers.tasks import Task


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompareSettings:
    """How every layer is trained and tested; the same for all.

    Args:
        hidden_size: the width of the residual stream.
        num_heads: heads of each layer that has heads.
        depth: blocks, all of the layer compared.
        feed_forward: what follows each layer, as in `transect.mixers.StackConfig`, or None.
        steps: training steps at most; training stops early once a layer has learnt the task (99.5% right, twice in a row).
        batch_size: sequences in a step.
        learning_rates: each is tried once, and the best on validation sequences (fewest trainings diverged, then most answers right) is tested.
        seeds: runs of each layer; each has its own weights and batches, the same batches for all layers.
        weight_decay: of AdamW.
        every: steps between validations, at which the state is kept as well.
        test_size: sequences in each test.

    Raises:
        InputError: a number below 1, or learning rates that are not above 0, or twice the same.
    """

    hidden_size: int = 64
    num_heads: int = 2
    depth: int = 2
    feed_forward: Any = None
    steps: int = 1000
    batch_size: int = 64
    learning_rates: tuple[float, ...] = (3e-3,)
    seeds: int = 1
    weight_decay: float = 0.1
    every: int = 100
    test_size: int = 256

    def __post_init__(self) -> None:
        for name in ("hidden_size", "num_heads", "depth", "steps", "batch_size", "seeds", "every", "test_size"):
            if getattr(self, name) < 1:
                raise InputError(f"expected {name} of at least 1, got {getattr(self, name)}.")
        rates = self.learning_rates
        if not rates or not all(0 < rate < math.inf for rate in rates) or len(set(rates)) < len(rates):
            raise InputError(f"expected learning rates above 0 and finite, each once, got {list(rates)}.")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**dataclasses.asdict(self), "learning_rates": list(self.learning_rates)}


def layer_spec(text: str) -> dict[str, Any]:
    """A layer and its settings from one word: ``gdn``, ``deltanet:allow_neg_eigval=true;num_heads=4``.

    Raises:
        InputError: no such layer or setting, or a setting without a value.

    Examples:
        >>> layer_spec("deltanet:allow_neg_eigval=true")
        {'kind': 'deltanet', 'allow_neg_eigval': True}
    """
    name, _, rest = text.partition(":")
    settings: dict[str, Any] = {}
    for part in filter(None, rest.split(";")):
        key, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"expected settings of a layer as name=value;name=value, got {part!r} in {text!r}.")
        try:
            settings[key.strip()] = json.loads(value)
        except ValueError:
            settings[key.strip()] = value.strip()
    spec = {"kind": name.strip().lower(), **settings}
    resolve(spec, layer_kinds(), what="layer")
    return spec


def make_task(name: str, sizes: Mapping[str, float] | None = None, *, text: str | Path | None = None) -> Task:
    """A task by its short name, with sizes where they are given.

    Args:
        name: ``recall``, ``capacity``, ``needle``, ``parity``, ``modular``, ``s3``, ``a5``, ``s5`` or ``perplexity``.
        sizes: such as ``length``, ``pairs``, ``vocab`` and ``power``, where the task has them.
        text: a file for ``perplexity``; None for the sentences of the built-in sets.

    Raises:
        InputError: no such task or size, a text for another task, or a file that cannot be read.
    """
    kinds = {kind.alias: kind for kind in (getattr(tasks, each) for each in tasks.__all__) if isinstance(getattr(kind, "alias", None), str)}
    if name not in kinds:
        raise InputError(f"expected a task that exists, got {name!r}; {near_matches(name, sorted(kinds))}.")
    kind, wanted = kinds[name], dict[str, Any](sizes or {})
    taken = {size: each.annotation for size, each in inspect.signature(kind).parameters.items() if size != "data"}
    for size, value in wanted.items():
        if size not in taken:
            raise InputError(f"the task {name} has no {size}; {near_matches(size, sorted(taken))}.")
        if taken[size] is int and not isinstance(value, int):
            raise InputError(f"expected a whole number as {size} of the task {name}, got {value!r}.")
    if kind is not tasks.Text:
        if text is not None:
            raise InputError(f"a text is for the task perplexity, got one for {name}.")
        return kind(**wanted)
    return kind(data=_sentences() if text is None else _read(text), **wanted)


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error


def _sentences() -> bytes:
    """All sentences of the built-in sets, in an order without pattern but always the same."""
    import random

    from transect.data import read_table
    from transect.data.builtin import builtin_names

    lines = [text for name in builtin_names() for text in read_table(name).texts if isinstance(text, str)]
    random.Random(0).shuffle(lines)
    return "\n".join(lines).encode()
