"""Names of places in a model.

| name | the place |
|---|---|
| ``layers[12]`` | the residual stream after block 12, counted from 0; ``layers[-1]`` is the last block's |
| ``layers[12].in`` | the residual stream that enters block 12 |
| ``layers[12].attn.out``, ``layers[12].mlp.out`` | what attention (or another token mixer) and the MLP return |
| ``layers[12].attn.heads``, ``layers[12].mlp.act`` | the input of the last linear layer of attention and of the MLP |
| ``layers[12].self_attn.q_proj`` | any other module inside the block, by its path there: its output |
| ``layers[*]``, ``layers[4:12]`` | many blocks at once, with or without one of the endings above |
| ``embed``, ``final_norm`` | the embedding's output, and the output of the norm after the last block |
| ``model.layers.3.mlp.up_proj`` | any module by its dotted path: its output |
| ``blocks.12.hook_resid_post`` | TransformerLens's names for the places above |

The last block's output, ``layers[-1]``, and its normed version, ``final_norm``, are two places and have two names. One
place has one name: a negative index, an alias, or a dotted path that leads to a named place is answered with the
name in the first rows of this table.
"""

import dataclasses
import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from transect.errors import SiteError, near_matches
from transect.sites.parts import Block
from transect.sites.structure import Structure

_LAYERS = re.compile(r"layers\[([^\]]*)\](?:\.(.+))?")
_INDEX = re.compile(r"[+-]?\d+")
_SLICE = re.compile(r"([+-]?\d+)?:([+-]?\d+)?(?::(\d+))?")
_TRANSFORMER_LENS_BLOCK = re.compile(r"blocks\.(\d+|\*)\.(.+)")
_TRANSFORMER_LENS = {
    "hook_resid_post": "",
    "hook_out": "",
    "hook_resid_pre": ".in",
    "hook_in": ".in",
    "hook_attn_out": ".attn.out",
    "hook_mlp_out": ".mlp.out",
    "attn.hook_z": ".attn.heads",
    "mlp.hook_post": ".mlp.act",
}
_TRANSFORMER_LENS_ENDS = {"hook_embed": "embed", "ln_final.hook_normalized": "final_norm"}


@dataclasses.dataclass(frozen=True)
class Place:
    """One place in a model."""

    name: str
    """The canonical site name, for example ``layers[12]``."""
    module: str
    """The dotted path of the module to listen to, under the whole module; "" is the module itself."""
    end: Literal["output", "input"] = "output"
    """Which end of that module: what it returns, or its first argument."""


def resolve_sites(structure: Structure, sites: str | Sequence[str]) -> tuple[Place, ...]:
    """The places that site names stand for, in the order given, each once.

    Args:
        structure: of the model, by `find_structure`.
        sites: one name or several; the grammar is in `transect.sites.grammar`.

    Raises:
        SiteError: a name cannot be read or names nothing in this model; near matches are given.

    Examples:
        >>> from torch import nn
        >>> from transect.sites import find_structure
        >>> found = find_structure(nn.ModuleDict({"blocks": nn.ModuleList(nn.Linear(4, 4) for _ in range(3))}))
        >>> [place.name for place in resolve_sites(found, ["layers[*]", "layers[-1].in"])]
        ['layers[0]', 'layers[1]', 'layers[2]', 'layers[2].in']
    """
    names = [sites] if isinstance(sites, str) else list(sites)
    if not names:
        raise SiteError("expected at least one site, got none; for example sites='layers[*]'.")
    named = {(place.module, place.end): place for place in reversed(list(_named_places(structure)))}
    found: dict[str, Place] = {}
    for name in names:
        if not isinstance(name, str):
            raise SiteError(f"expected site names as strings, got {name!r}; for example 'layers[{name}]'.")
        for place in _resolve(structure, name.strip()):
            known = named.get((place.module, place.end), place)
            found.setdefault(known.name, known)
    return tuple(found.values())


def site_names(structure: Structure) -> tuple[str, ...]:
    """Every site of a model that has a short name, in the order of `_named_places`."""
    return tuple(place.name for place in _named_places(structure))


def _named_places(structure: Structure) -> Iterator[Place]:
    """Every place with a short name; where two names lead to one place the earlier one is its name."""
    for name in ("embed", "final_norm"):
        path = getattr(structure, name)
        if path is not None:
            yield Place(name, path)
    for index, block in enumerate(structure.parts):
        for part, (path, end) in {"": (block.path, "output"), **_block_places(block)}.items():
            yield Place(f"layers[{index}]{part and '.'}{part}", path, end)


def _block_places(block: Block) -> dict[str, tuple[str, Literal["output", "input"]]]:
    """The endings that exist in this block, with their module and end."""
    places: dict[str, tuple[str | None, Literal["output", "input"]]] = {
        "in": (block.path, "input"),
        "attn.out": (block.attn, "output"),
        "attn.heads": (block.attn_projection, "input"),
        "mlp.out": (block.mlp, "output"),
        "mlp.act": (block.mlp_projection, "input"),
    }
    return {part: (path, end) for part, (path, end) in places.items() if path is not None}


def _resolve(structure: Structure, name: str) -> list[Place]:
    plain = _without_alias(name)
    if plain in ("embed", "final_norm"):
        path = getattr(structure, plain)
        if path is not None:
            return [Place(plain, path)]
        if name not in structure.modules:
            what = "embedding" if plain == "embed" else "norm after its last block"
            raise SiteError(f"site {name!r}: this model has no {what}. {_available(structure)}")
    blocks = _LAYERS.fullmatch(plain)
    if blocks:
        indices = _select(structure, blocks[1].strip(), name)
        return [_in_block(structure, index, blocks[2], name) for index in indices]
    if plain and plain in structure.modules:
        return [Place(plain, plain)]
    near = difflib.get_close_matches(name, [*site_names(structure), *structure.modules], n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(repr(option) for option in near)}? " if near else ""
    raise SiteError(f"unknown site {name!r}: {hint}{_available(structure)}")


def _without_alias(name: str) -> str:
    """TransformerLens's names in our words; other names as they are."""
    block = _TRANSFORMER_LENS_BLOCK.fullmatch(name)
    if block and block[2] in _TRANSFORMER_LENS:
        return f"layers[{block[1]}]{_TRANSFORMER_LENS[block[2]]}"
    return _TRANSFORMER_LENS_ENDS.get(name, name)


def _select(structure: Structure, inside: str, name: str) -> range:
    """The block indices that the brackets name; bounds outside the model are refused, not clipped."""
    count = len(structure.blocks)
    if count == 0:
        raise SiteError(
            f"site {name!r}: this model has no single list of blocks to count. Name a module by its dotted path. {_available(structure)}"
        )
    if inside == "*":
        return range(count)
    if _INDEX.fullmatch(inside):
        index = int(inside)
        if not -count <= index < count:
            raise SiteError(f"site {name!r}: this model has {count} blocks, layers[0] to layers[{count - 1}].")
        return range(index % count, index % count + 1)
    bounds = _SLICE.fullmatch(inside)
    if not bounds:
        raise SiteError(
            f"cannot read site {name!r}: in the brackets a block index (3, -1), a slice (4:12) or * was expected, got {inside!r}."
        )
    start, stop, step = (None if bound is None else int(bound) for bound in bounds.groups())
    outside = [bound for bound in (start, stop) if bound is not None and not -count <= bound <= count]
    if outside or step == 0:
        raise SiteError(f"site {name!r}: this model has {count} blocks, layers[0] to layers[{count - 1}]; {inside!r} reaches outside them.")
    chosen = range(count)[slice(start, stop, step)]
    if not chosen:
        raise SiteError(f"site {name!r} names no block: {inside!r} is empty among {count} blocks.")
    return chosen


def _in_block(structure: Structure, index: int, part: str | None, name: str) -> Place:
    block = structure.parts[index]
    canonical = f"layers[{index}]"
    if part is None:
        return Place(canonical, block.path)
    places = _block_places(block)
    if part in places:
        path, end = places[part]
        return Place(f"{canonical}.{part}", path, end)
    inner = f"{block.path}.{part}"
    if inner in structure.modules:
        return Place(f"{canonical}.{part}", inner)
    inside = [path.removeprefix(f"{block.path}.") for path in structure.modules if path.startswith(f"{block.path}.")]
    having = [f"layers[{other}]" for other, parts in enumerate(structure.parts) if part in _block_places(parts)]
    elsewhere = f" Blocks that have it: {', '.join(having)}; name those." if having else ""
    raise SiteError(
        f"site {name!r}: block {index} ({structure.modules[block.path]}) has no {part!r}. It has: {', '.join(places)}.{elsewhere} "
        f"Its modules by path: {near_matches(part, inside)}."
    )


def _available(structure: Structure) -> str:
    sites = [name for name in ("embed", "final_norm") if getattr(structure, name) is not None]
    if structure.blocks:
        sites += [f"layers[0..{len(structure.blocks) - 1}]", f"layers[i].({'|'.join(_block_places(structure.parts[-1]))})"]
    return f"Sites here: {', '.join([*sites, 'any dotted module path'])}."
