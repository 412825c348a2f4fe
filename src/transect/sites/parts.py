"""The parts of one block: what mixes tokens, what works on each token alone, and the last linear layer of both."""

import dataclasses
import re
from collections.abc import Iterator

from torch import nn

_MLP = re.compile(r"mlp|feed_?forward|ffn|moe|expert|glu\b|channel_mix", re.IGNORECASE)
_ATTENTION = re.compile(r"attn|attention", re.IGNORECASE)
_MIXER = re.compile(r"mixer|mamba|ssm|time_?mix|temporal|recurrent|retention|delta|lstm|gru|rnn|hyena|conv|linear_attn", re.IGNORECASE)
_ROUTED = re.compile(r"expert|moe|router", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """One block of the residual stream and its parts, each a dotted module path, or None where the block has no such part."""

    path: str
    """The block itself; its output is the residual stream after it."""
    attn: str | None = None
    """The module that returns what token mixing (attention, a state-space mixer, RWKV's time mix) found."""
    attn_projection: str | None = None
    """The last linear layer of token mixing; its input is what the heads hand over."""
    mlp: str | None = None
    """The module that returns what the per-token part found."""
    mlp_projection: str | None = None
    """The last linear layer of the per-token part; its input is the MLP's activations."""


def find_parts(path: str, block: nn.Module, width: int | None) -> Block:
    """The parts of one block.

    `attn` and `mlp` are the modules that return what the part computed, before it is added to the residual stream.
    In BERT's blocks those modules add and normalise themselves, so the part's last linear layer stands for it. Models
    that normalise a part's result before adding it (Gemma 2 and 3) have that norm as a module of its own: its dotted
    path names what is added.
    """
    children = [(name, child) for name, child in block.named_children() if any(weight.ndim > 1 for weight in child.parameters())]
    mixing = _first(children, _ATTENTION) or _first(children, _MIXER)
    per_token = next((name for name, child in children if name != mixing and _matches(_MLP, name, child)), None)
    if mixing is not None and mixing == per_token:
        mixing = None
    attn, attn_projection = _part(block, mixing, width)
    mlp, mlp_projection = _part(block, per_token, width)
    if mlp is None and mixing is not None:
        # OPT, BERT, torch's own encoder: the MLP's two linear layers lie in the block, without a module around them.
        rest = [
            (f"{name}.{inner}" if inner else name, linear)
            for name, child in children
            if name != mixing
            for inner, linear in _linears(child)
        ]
        mlp = mlp_projection = _last(rest, width)
    return Block(
        path=path,
        attn=_under(path, attn),
        attn_projection=_under(path, attn_projection),
        mlp=_under(path, mlp),
        mlp_projection=_under(path, mlp_projection),
    )


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a normalisation, by its class's name: every family writes its own RMS norm."""
    return "norm" in type(module).__name__.lower()


def is_linear(module: nn.Module) -> bool:
    """Whether a module is a linear layer: torch's, GPT-2's transposed one (also called Conv1D), a quantised or an adapted one."""
    if isinstance(module, nn.Linear):
        return True
    return not isinstance(module, nn.Conv1d) and re.search(r"linear|^conv1d$", type(module).__name__, re.IGNORECASE) is not None


def written_width(block: nn.Module) -> int | None:
    """The width that a block's last layer writes, None if no layer says so."""
    if isinstance(block, nn.RNNBase):
        return (block.proj_size or block.hidden_size) * (2 if block.bidirectional else 1)
    widths = [_writes(linear) for _, linear in _linears(block)]
    return widths[-1] if widths else None


def _linears(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The linear layers of a module in order, by relative path; what is inside one (an adapter's own) does not count."""
    if is_linear(module):
        yield "", module
        return
    for name, child in module.named_children():
        for inner, linear in _linears(child):
            yield (f"{name}.{inner}" if inner else name), linear


def _matches(pattern: re.Pattern[str], name: str, child: nn.Module) -> bool:
    return not is_norm(child) and bool(pattern.search(name) or pattern.search(type(child).__name__))


def _first(children: list[tuple[str, nn.Module]], pattern: re.Pattern[str]) -> str | None:
    """The first child that fits; one whose class says MLP is not a mixer, whatever it is called (Nemotron-H)."""
    fitting = (name for name, child in children if _matches(pattern, name, child) and not _MLP.search(type(child).__name__))
    return next(fitting, None)


def _part(block: nn.Module, name: str | None, width: int | None) -> tuple[str | None, str | None]:
    """The module that returns the part's result, and the part's last linear layer."""
    if name is None:
        return None, None
    part = block.get_submodule(name)
    if isinstance(part, nn.MultiheadAttention) or any(_ROUTED.search(type(child).__name__) for child in part.modules()):
        # torch's attention uses its projection's weights without calling it; routed experts have no one last layer.
        return name, None
    last = _last(list(_linears(part)), width)
    if last is None:
        return name, None
    projection = f"{name}.{last}" if last else name
    holder = block.get_submodule(projection.rpartition(".")[0]) if "." in projection else part
    if holder is not part and any(is_norm(child) for child in holder.children()):
        return projection, projection
    return name, projection


def _last(linears: list[tuple[str, nn.Module]], width: int | None) -> str | None:
    """The linear layer defined last among those that write the residual width."""
    writing = [path for path, linear in linears if width is None or _writes(linear) in (width, None)]
    return writing[-1] if writing else None


def _writes(linear: nn.Module) -> int | None:
    """The output width of a linear layer, None if it does not say."""
    for key in ("out_features", "nf"):  # `nf` is what GPT-2's transposed layer calls it
        value = getattr(linear, key, None)
        if isinstance(value, int):
            return value
    return None


def _under(path: str, inner: str | None) -> str | None:
    return None if inner is None else f"{path}.{inner}"
