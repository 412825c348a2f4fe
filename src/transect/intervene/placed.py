"""Probes put at their places: one hook and one matrix product per site, for however many probes read there."""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from transect.capture.hooks import first_tensor
from transect.errors import MismatchError, SiteError
from transect.linear import Readout
from transect.sites import Place

Hear = Callable[[int, torch.Tensor], None]
Before = Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]
After = Callable[[nn.Module, tuple[Any, ...], Any], None]


class Group:
    """The probes of one site, their weights stacked.

    Args:
        place: the site.
        readouts: name -> probe, all of one width.

    Raises:
        MismatchError: the probes read different widths.
    """

    def __init__(self, place: Place, readouts: Mapping[str, Readout]) -> None:
        widths = {name: readout.width for name, readout in readouts.items()}
        if len(set(widths.values())) > 1:
            raise MismatchError(f"probes at one site read one width, got {widths} at {place.name}; one of them belongs elsewhere.")
        self.place = place
        self.width = next(iter(widths.values()))
        self.columns: dict[str, slice | int] = {}
        """Name -> its columns among the scores ``[B, t, K]``; a number where the probe has one score."""
        at = 0
        for name, readout in readouts.items():
            k = len(readout.bias)
            self.columns[name] = at if k == 1 else slice(at, at + k)
            at += k
        self.n_columns = at
        self._dtype = functools.reduce(torch.promote_types, (readout.weight.dtype for readout in readouts.values()), torch.float32)
        self._weight = torch.cat([readout.weight.to(self._dtype) for readout in readouts.values()])
        self._bias = torch.cat([readout.bias.to(self._dtype) for readout in readouts.values()])

    def scores(self, hidden: torch.Tensor, *, rows: int, skip: int) -> torch.Tensor:
        """Scores ``[B, t, K]`` of the tokens from column `skip` on.

        Args:
            hidden: the tensor at the site, ``[B, t, d]`` or ``[B*t, d]``.
            rows: B.
            skip: how many leading columns were scored before.

        Raises:
            SiteError: the tensor is laid out in another way.
            MismatchError: it has another width.
        """
        if hidden.ndim == 2 and hidden.shape[0] % rows == 0:
            hidden = hidden.unflatten(0, (rows, -1))
        if hidden.ndim != 3 or hidden.shape[0] != rows:
            raise SiteError(
                f"{self.place.name} has shape {list(hidden.shape)} in a pass over {rows} rows; a monitor needs [rows, tokens, width], such as "
                f"a block's output."
            )
        if hidden.shape[2] != self.width:
            raise MismatchError(
                f"the probes at {self.place.name} read width {self.width}, the model has {hidden.shape[2]} there; another site or model?"
            )
        dtype = torch.promote_types(hidden.dtype, self._dtype)
        if self._weight.device != hidden.device or self._weight.dtype != dtype:
            self._weight, self._bias = self._weight.to(hidden.device, dtype), self._bias.to(hidden.device, dtype)
        new = hidden if skip == 0 else hidden[:, skip:]
        return torch.nn.functional.linear(new.to(dtype), self._weight, self._bias)


def group_probes(readouts: Mapping[str, Readout], places: Mapping[str, Place]) -> tuple[Group, ...]:
    """The probes by the place they read; `places` says where each reads."""
    together: dict[Place, dict[str, Readout]] = {}
    for name, readout in readouts.items():
        together.setdefault(places[name], {})[name] = readout
    return tuple(Group(place, members) for place, members in together.items())


class Hooks:
    """Hooks that are taken away again, in the reverse order; only our own handles are touched."""

    def __init__(self) -> None:
        self._handles: list[RemovableHandle] = []

    def install(self, model: nn.Module, speaker: nn.Module, groups: Iterable[Group], *, before: Before, hear: Hear, after: After) -> None:
        """Call `before` and `after` around every pass of `speaker`, and `hear` with each group's number and tensor in between.

        Registered last at their modules, so that what other people's hooks make of a value is what is seen.
        """
        try:
            self._handles.append(speaker.register_forward_pre_hook(before, with_kwargs=True))
            for index, group in enumerate(groups):
                child = model.get_submodule(group.place.module)
                if group.place.end == "input":
                    listen = functools.partial(_input, hear, index, group.place)
                    self._handles.append(child.register_forward_pre_hook(listen, with_kwargs=True))
                else:
                    self._handles.append(child.register_forward_hook(functools.partial(_output, hear, index, group.place)))
            self._handles.append(speaker.register_forward_hook(after))
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Take all of them away."""
        while self._handles:
            self._handles.pop().remove()


def _input(hear: Hear, index: int, place: Place, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    named = [kwargs["hidden_states"]] if "hidden_states" in kwargs else []
    hear(index, first_tensor((*args, *named, *kwargs.values()), place))


def _output(hear: Hear, index: int, place: Place, _module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
    hear(index, first_tensor(output, place))
