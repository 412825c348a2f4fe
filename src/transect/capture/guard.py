"""Leaving a model exactly as it was found."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


class Overwrites(TorchDispatchMode):
    """While active, keeps a copy of each watched tensor's memory before an operation writes into it.

    Some models change their own weights when they first run: RWKV halves deep layers' output weights in evaluation mode.
    Watching costs a few microseconds per operation, so it is on for the first pass and stays on only if that pass wrote.

    Args:
        module: whose parameters and buffers are watched.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._watched: dict[int, torch.UntypedStorage] = {}
        self._saved: dict[int, torch.UntypedStorage] = {}
        for tensor in (*module.parameters(), *module.buffers()):
            storage = _storage(tensor)
            if storage is not None:
                self._watched[storage.data_ptr()] = storage

    @property
    def any(self) -> bool:
        """Whether anything was written."""
        return bool(self._saved)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Save what `func` is about to write into, then run it."""
        del types
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            for at, argument in enumerate(func._schema.arguments):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    self._save(args[at] if at < len(args) else kwargs.get(argument.name))
        return func(*args, **kwargs)

    def _save(self, value: Any) -> None:
        for tensor in value if isinstance(value, list | tuple) else (value,):
            storage = _storage(tensor) if isinstance(tensor, torch.Tensor) else None
            if storage is not None and storage.data_ptr() in self._watched:
                self._saved.setdefault(storage.data_ptr(), storage.clone())

    def restore(self) -> None:
        """Write the saved numbers back."""
        for address, saved in self._saved.items():
            self._watched[address].copy_(saved)


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """The memory of a tensor, or None where it has none of its own (meta tensors, wrappers of quantised weights)."""
    try:
        storage = tensor.untyped_storage()
        return storage if storage.data_ptr() else None
    except (RuntimeError, NotImplementedError):
        return None


@contextlib.contextmanager
def untouched(module: nn.Module) -> Iterator[Overwrites]:
    """Evaluation mode and no gradients inside the block; afterwards the module, the RNG and the modes are as before.

    Put back, also after an exception or Ctrl-C: each submodule's training flag and other attributes, which tensors are its
    parameters and buffers, what is in them (as far as the yielded `Overwrites` was active when they were written), and
    torch's random state on the CPU and on the module's devices.
    """
    before = [(child, dict(vars(child)), dict(child._parameters), dict(child._buffers)) for child in module.modules()]
    devices = {tensor.device for tensor in module.parameters() if tensor.device.type == "cuda"}
    overwrites = Overwrites(module)
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=list(devices)):
            for child, *_ in before:
                child.training = False
            yield overwrites
    finally:
        overwrites.restore()
        for child, attributes, parameters, buffers in before:
            _put_back(vars(child), attributes)
            _put_back(child._parameters, parameters)
            _put_back(child._buffers, buffers)


def _put_back(now: dict[str, Any], before: dict[str, Any]) -> None:
    for name in [name for name in now if name not in before]:
        del now[name]
    for name, value in before.items():
        if name not in now or now[name] is not value:
            now[name] = value
