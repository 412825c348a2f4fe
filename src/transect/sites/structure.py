"""The parts of a model that have a name, found by the shape of its module tree and never by its family.

Deep networks of almost every kind are one list of like blocks, with an embedding before it and often a normalisation
after it. That list is looked for; its parents say what lies before and after; inside a block, the part that mixes tokens
and the part that works on each token alone are told apart by what they are called and what they contain. A new family
therefore works on the day it appears, and a part that a model does not have is absent rather than guessed.
"""

import dataclasses
from collections.abc import Mapping

from torch import nn

from transect.sites.blocks import find_blocks
from transect.sites.parts import Block, find_parts, is_norm, written_width

# What a model's recurrent mixers are called; their activations cannot see later tokens, whatever their attributes say.
_RECURRENT = ("mamba", "rwkv", "ssm", "recurrent", "retention", "deltanet", "lstm", "gru")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Structure:
    """Where a model's named places are, as dotted module paths under the whole module."""

    blocks: tuple[str, ...] = ()
    """The blocks in the order in which they run; empty when the module has no single list of them."""
    parts: tuple[Block, ...] = ()
    """The same blocks with their parts."""
    embed: str | None = None
    """The module that makes the first residual stream from tokens or patches."""
    tokens: str | None = None
    """The table of token vectors, an `nn.Embedding`; the same module as `embed` where nothing is added to it there."""
    final_norm: str | None = None
    """The normalisation after the last block."""
    backbone: str = ""
    """The part that runs without the language-model head; "" is the module itself."""
    width: int | None = None
    """The width ``d`` of the residual stream, where it can be told."""
    causal: bool = False
    """True when a token's activation cannot depend on the tokens after it."""
    modules: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    """Every dotted module path, with the name of its class."""


def find_structure(module: nn.Module) -> Structure:
    """The named places of any module.

    Nothing is run and nothing is changed: only names, classes and shapes are read.

    Args:
        module: a whole network. Transformers, state-space models, vision transformers, or anything with a list of blocks;
            a module without one still has its dotted paths.

    Examples:
        >>> from torch import nn
        >>> blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        >>> found = find_structure(nn.ModuleDict({"embed": nn.Embedding(9, 4), "blocks": blocks, "norm": nn.LayerNorm(4)}))
        >>> found.blocks, found.embed, found.final_norm, found.width
        (('blocks.0', 'blocks.1', 'blocks.2'), 'embed', 'norm', 4)
    """
    named = dict(module.named_modules())
    tokens = _token_embedding(module, named)
    chain = find_blocks(module, near=tokens)
    embed = _find_embed(module, chain, tokens)
    base = _stated_backbone(module, named)
    final_norm = None if chain is None else _find_final_norm(module, chain, base or "")
    blocks = () if chain is None else tuple(_join(chain, name) for name, _ in module.get_submodule(chain).named_children())
    width = _find_width(module, final_norm, embed, blocks)
    return Structure(
        blocks=blocks,
        parts=tuple(find_parts(path, module.get_submodule(path), width) for path in blocks),
        embed=embed,
        tokens=tokens if tokens is not None and isinstance(named[tokens], nn.Embedding) else None,
        final_norm=final_norm,
        backbone=_around(chain, embed, final_norm) if base is None else base,
        width=width,
        causal=_is_causal(module, blocks),
        modules={path: type(child).__name__ for path, child in named.items()},
    )


def _token_embedding(module: nn.Module, named: Mapping[str, nn.Module]) -> str | None:
    """The path of the token (or patch) embedding, by Hugging Face's accessor, else the first `nn.Embedding`."""
    accessor = getattr(module, "get_input_embeddings", None)
    if callable(accessor):
        try:
            found = accessor()
        except (NotImplementedError, AttributeError):
            found = None  # some vision models have the method and not the module
        for path, child in named.items():
            if child is found:
                return path
    return next((path for path, child in named.items() if isinstance(child, nn.Embedding)), None)


def _find_embed(module: nn.Module, chain: str | None, tokens: str | None) -> str | None:
    """The sibling of the blocks that holds the embedding: BERT adds positions and types inside it, Llama has the bare table."""
    if chain is None or tokens is None:
        return tokens
    for ancestor in _ancestors(chain):
        parent = module.get_submodule(ancestor)
        for name, _ in parent.named_children():
            path = _join(ancestor, name)
            if not _within(chain, path) and _within(tokens, path):
                return path
    return tokens


def _find_final_norm(module: nn.Module, chain: str, base: str) -> str | None:
    """The first norm after the blocks among their siblings, climbing outwards but not into a head; else an earlier one named final."""
    for ancestor in _ancestors(chain):
        if not _within(ancestor, base):
            break
        children = [(_join(ancestor, name), child) for name, child in module.get_submodule(ancestor).named_children()]
        at = next(index for index, (path, _) in enumerate(children) if _within(chain, path))
        after = [path for path, child in children[at + 1 :] if is_norm(child)]
        before = [path for path, child in children[:at] if is_norm(child) and "final" in path.rpartition(".")[2].lower()]
        if after or before:
            return (after + before)[0]
    return None


def _find_width(module: nn.Module, final_norm: str | None, embed: str | None, blocks: tuple[str, ...]) -> int | None:
    """The residual width: the final norm's, else the configuration's, the embedding's, the last block's last layer's."""
    if final_norm is not None:
        for parameter in module.get_submodule(final_norm).parameters():
            return parameter.shape[-1]
    config = getattr(module, "config", None)
    for key in ("hidden_size", "d_model", "n_embd"):
        value = getattr(config, key, None)
        if isinstance(value, int):
            return value
    if embed is not None and isinstance(table := module.get_submodule(embed), nn.Embedding):
        return table.embedding_dim
    return written_width(module.get_submodule(blocks[-1])) if blocks else None


def _stated_backbone(module: nn.Module, named: Mapping[str, nn.Module]) -> str | None:
    """The part under the head by Hugging Face's own word; None when that word leads nowhere.

    Plain modules run whole, since nobody can know what their forward does.
    """
    if not hasattr(module, "config") or not hasattr(module, "get_input_embeddings"):
        return ""
    prefix = getattr(module, "base_model_prefix", "")
    return prefix if prefix and prefix in named else None


def _around(*places: str | None) -> str:
    """The innermost module that holds all places: under the wrapper of an adapter, and in the tower that reads text."""
    paths = [path.split(".") for path in places if path is not None]
    shared = []
    for names in zip(*(path[:-1] for path in paths), strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    return ".".join(shared) if len(paths) > 1 else ""


def _is_causal(module: nn.Module, blocks: tuple[str, ...]) -> bool:
    """By the flag that attention modules carry, else because the network writes text, else because its mixers are recurrent."""
    inner = [child for path in blocks or ("",) for child in module.get_submodule(path).modules()]
    flags = [child.is_causal for child in inner if isinstance(getattr(child, "is_causal", None), bool)]
    if flags:
        return all(flags)
    generates = getattr(module, "can_generate", None)
    if callable(generates) and generates():
        return True
    recurrent = [child for child in inner if any(word in type(child).__name__.lower() for word in _RECURRENT)]
    return bool(recurrent) and not any(getattr(child, "bidirectional", False) for child in recurrent)


def _ancestors(path: str) -> list[str]:
    """The enclosing paths from the nearest outwards, "" last."""
    parts = path.split(".")[:-1] if path else []
    return [".".join(parts[:length]) for length in range(len(parts), -1, -1)] if path else []


def _join(outer: str, name: str) -> str:
    return f"{outer}.{name}" if outer else name


def _within(path: str, outer: str) -> bool:
    return outer in (path, "") or path.startswith(f"{outer}.")
