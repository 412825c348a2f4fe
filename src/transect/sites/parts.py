"""The parts of one block: what mixes tokens, what works on each token alone, and the last linear layer of both."""

import dataclasses
import re
from collections.abc import Iterator

from torch import nn

_ATTENTION = re.compile(r"attn|attention", re.IGNORECASE)
_MIXER = re.compile(r"mixer|mamba|ssm|time_?mix|temporal|recurrent|retention|delta|lstm|gru|rnn|hyena|conv|linear_attn", re.IGNORECASE)
_MLP = re.compile(r"mlp|feed_?forward|ffn|^ff$|moe|expert|channel_mix", re.IGNORECASE)
# The end of a class's name says what it is; its beginning may be a family's name (Qwen3MoeAttention).
_MLP_CLASS = re.compile(r"(mlp|moe|experts?|feedforward|ffn)(block|layer)?$", re.IGNORECASE)
_ROUTED_CLASS = re.compile(r"(experts?|router|moe(block|layer)?)$", re.IGNORECASE)


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
    children = [(name, child) for name, child in children if not is_norm(child)]
    mixing = _first(children, _ATTENTION, _ATTENTION) or _first(children, _MIXER, _MIXER)
    per_token = _first([(name, child) for name, child in children if name != mixing], _MLP, _MLP_CLASS)
    attn, attn_projection = _part(block, mixing, width)
    mlp, mlp_projection = _part(block, per_token, width)
    if mlp is None and mixing is not None:
        mlp = mlp_projection = _loose_mlp([(name, child) for name, child in children if name != mixing], width)
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


def _first(children: list[tuple[str, nn.Module]], name_says: re.Pattern[str], class_says: re.Pattern[str]) -> str | None:
    """The first child that fits by its name or its class.

    An MLP class is no mixer, whatever it is called (Nemotron-H), nor is a whole block with an MLP of its own (Zamba).
    """
    for name, child in children:
        kind = type(child).__name__
        holds_mlp = any(_MLP.search(inner) for inner, _ in child.named_children())
        if name_says is not _MLP and (_MLP_CLASS.search(kind) or holds_mlp):
            continue
        if name_says.search(name) or class_says.search(kind):
            return name
    return None


def _part(block: nn.Module, name: str | None, width: int | None) -> tuple[str | None, str | None]:
    """The module that returns the part's result, and the part's last linear layer."""
    if name is None:
        return None, None
    part = block.get_submodule(name)
    if isinstance(part, nn.MultiheadAttention) or any(_ROUTED_CLASS.search(type(child).__name__) for child in part.modules()):
        # torch's attention uses its projection's weights without calling it; routed experts have no one last layer.
        return name, None
    last = _last(list(_linears(part)), width)
    if last is None:
        return name, None
    projection = f"{name}.{last}" if last else name
    # A projection deeper inside sits in a module that adds and normalises (BERT's output), so it stands for the part.
    return (projection if "." in last else name), projection


def _loose_mlp(children: list[tuple[str, nn.Module]], width: int | None) -> str | None:
    """OPT, BERT, torch's own encoder: the MLP's two linear layers lie in the block, without one module around both."""
    loose = [(f"{name}.{inner}" if inner else name, linear) for name, child in children for inner, linear in _linears(child)]
    near = [(path, linear) for path, linear in loose if path.count(".") <= 1]
    return _last(near, width) if len(near) > 1 else None


def _last(linears: list[tuple[str, nn.Module]], width: int | None) -> str | None:
    """The linear layer defined last among those that write the residual width; gates only when nothing else does."""
    writing = [path for path, linear in linears if width is None or _writes(linear) in (width, None)]
    plain = [path for path in writing if "gate" not in path.rpartition(".")[2]]
    return (plain or writing or [None])[-1]


def _writes(linear: nn.Module) -> int | None:
    """The output width of a linear layer, None if it does not say."""
    for key in ("out_features", "nf"):  # `nf` is what GPT-2's transposed layer calls it
        value = getattr(linear, key, None)
        if isinstance(value, int):
            return value
    return None


def _under(path: str, inner: str | None) -> str | None:
    return None if inner is None else f"{path}.{inner}"
