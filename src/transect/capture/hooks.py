"""Listening at places of a running module, with hooks that are always taken away again."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from transect.errors import SiteError
from transect.sites import Place

Pick = Callable[[int, torch.Tensor], torch.Tensor]


class _EverySiteHasRunError(BaseException):
    """Ends a forward pass early. A BaseException, so that no ``except Exception`` on the way swallows it."""


class Listener:
    """Hooks at some places of a module; use it in a ``with`` block.

    The hooks are registered last, so they see what other people's hooks made of a value, as the next block does; they
    change nothing, and only their own handles are removed.

    Args:
        module: the whole module.
        places: where to listen.
    """

    def __init__(self, module: nn.Module, places: Sequence[Place]) -> None:
        self._module = module
        self._places = places
        self._handles: list[RemovableHandle] = []
        self._hear: Callable[[int, Any], None] | None = None

    def __enter__(self) -> Self:
        """Register the hooks."""
        try:
            for index, place in enumerate(self._places):
                self._handles.append(self._listen(index, place))
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Remove them, whatever happened."""
        self._remove()

    def _listen(self, index: int, place: Place) -> RemovableHandle:
        module = self._module.get_submodule(place.module)
        if place.end == "input":
            return module.register_forward_pre_hook(functools.partial(self._before, index), with_kwargs=True)
        return module.register_forward_hook(functools.partial(self._after, index))

    def _remove(self) -> None:
        while self._handles:
            self._handles[-1].remove()
            self._handles.pop()

    def _before(self, index: int, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._hear is not None:
            named = [kwargs["hidden_states"]] if "hidden_states" in kwargs else []
            self._hear(index, (*args, *named, *kwargs.values()))

    def _after(self, index: int, _module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
        if self._hear is not None:
            self._hear(index, output)

    @contextlib.contextmanager
    def _hearing(self, hear: Callable[[int, Any], None]) -> Iterator[None]:
        self._hear = hear
        try:
            yield
        finally:
            self._hear = None

    def collect(self, forward: Callable[[], Any], pick: Pick) -> list[torch.Tensor]:
        """Run a forward pass up to the last place, and keep what `pick` makes of each place's tensor.

        Args:
            forward: runs the module.
            pick: from the place's index and its whole tensor to what is kept, which must be a copy: the tensor may be
                overwritten later in the same pass.

        Raises:
            SiteError: a place ran twice before all had run, or did not run.
        """
        kept: dict[int, torch.Tensor] = {}

        def hear(index: int, value: Any) -> None:
            if index in kept:
                raise _twice(self._places[index])
            kept[index] = pick(index, first_tensor(value, self._places[index]))
            if len(kept) == len(self._places):
                raise _EverySiteHasRunError

        with self._hearing(hear), contextlib.suppress(_EverySiteHasRunError):
            forward()
        self._check_ran(kept)
        return [kept[index] for index in range(len(self._places))]

    def observe(self, forward: Callable[[], Any]) -> list[torch.Tensor]:
        """Run a whole forward pass and return each place's tensor, empty of numbers (on the meta device).

        Raises:
            SiteError: a place ran more than once, or did not run.
        """
        seen: dict[int, torch.Tensor] = {}

        def hear(index: int, value: Any) -> None:
            if index in seen:
                raise _twice(self._places[index])
            seen[index] = first_tensor(value, self._places[index]).to("meta")

        with self._hearing(hear):
            forward()
        self._check_ran(seen)
        return [seen[index] for index in range(len(self._places))]

    def _check_ran(self, heard: Mapping[int, torch.Tensor]) -> None:
        silent = [place.name for index, place in enumerate(self._places) if index not in heard]
        if silent:
            raise SiteError(
                f"{', '.join(silent)} did not run in the forward pass, so there is nothing to capture there. The module may be skipped in "
                f"this model, belong to the head, or be compiled: torch.compile ignores hooks, so load the module that was compiled."
            )


def _twice(place: Place) -> SiteError:
    return SiteError(
        f"{place.name} (module {place.module!r}) runs more than once in a forward pass, so its activation is not one value. "
        f"Blocks that share weights are one module; choose a site that runs once, such as the whole stack."
    )


def first_tensor(value: Any, place: Place) -> torch.Tensor:
    """The tensor itself, or the first one in a tuple, list or mapping, as modules return and take them.

    Raises:
        SiteError: there is none.
    """
    if isinstance(value, torch.Tensor):
        return value
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple | list) else ()
    found = next((item for item in items if isinstance(item, torch.Tensor)), None)
    if found is None:
        raise SiteError(
            f"{place.name} has no tensor at its {place.end}, got {type(value).__name__}; choose a site that carries activations."
        )
    return found
