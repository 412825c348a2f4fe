"""Finding the list of blocks that a deep network is made of."""

from collections.abc import Iterator

from torch import nn

from transect.sites.parts import is_norm


def find_blocks(module: nn.Module, *, near: str | None = None) -> str | None:
    """The dotted path of the module whose children are the blocks; None when no single list stands out.

    A candidate is an `nn.ModuleList` or `nn.Sequential` of like children that hold parameters. Lists inside another
    candidate's blocks (experts, stages) are left out. Of the rest the best is the one that shares most of its path with
    the token embedding (the language tower of a vision-language model), whose children are made of parts, and that is longest.
    Several lists of the same block side by side (the stages of a convolutional network) have no common residual
    stream, so then there is none.

    Args:
        module: the whole network.
        near: the path of the token embedding, when known.
    """
    candidates = list(_outermost(module, ""))
    if not candidates:
        return None

    def rank(path: str) -> tuple[int, bool, int]:
        children = list(module.get_submodule(path).children())
        return _shared(path, near), any(True for _ in children[0].children()), len(children)

    best = max(candidates, key=rank)
    twins = [path for path in candidates if path != best and path.rpartition(".")[0] == best.rpartition(".")[0]]
    kind = type(module.get_submodule(f"{best}.0" if best else "0"))
    if any(type(next(module.get_submodule(path).children())) is kind and rank(path)[1] for path in twins):
        return None
    return best


def _outermost(module: nn.Module, path: str) -> Iterator[str]:
    if _is_list_of_blocks(module):
        yield path
        return
    for name, child in module.named_children():
        yield from _outermost(child, f"{path}.{name}" if path else name)


def _is_list_of_blocks(module: nn.Module) -> bool:
    children = list(module.children())
    if not children or any(is_norm(child) or next(child.parameters(), None) is None for child in children):
        return False
    alike = len({type(child) for child in children}) == 1
    if isinstance(module, nn.ModuleList):
        # Hybrid models mix classes in one list (attention blocks and state-space blocks); each is made of parts.
        return alike or all(any(True for _ in child.children()) for child in children)
    return isinstance(module, nn.Sequential) and alike and len(children) > 1


def _shared(path: str, near: str | None) -> int:
    """How many leading path components two places share."""
    if near is None:
        return 0
    count = 0
    for one, other in zip(path.split("."), near.split("."), strict=False):
        if one != other:
            break
        count += 1
    return count
