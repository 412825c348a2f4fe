"""What a stack is made of; keys that mean nothing are refused, and so are settings that a layer does not take."""

from typing import Any, ClassVar, Literal, get_args

from transformers import PretrainedConfig

from transect.errors import InputError, near_matches
from transect.mixers.models.kinds import feed_forward_kinds, layer_kinds, resolve

Norm = Literal["rms", "layer"]

_ALLOWED = ("architectures", "model_type", "transformers_version", "torch_dtype", "name_or_path", "_name_or_path", "attn_implementation")


class StackConfig(PretrainedConfig):
    """A stack of sequence layers and feed-forward layers with residual connections, for language models.

    Args:
        layers: a layer for each block: a name (a class of `transect.mixers`, in any case, or its alias such as ``gdn``), or a mapping
            with ``kind`` and the layer's own settings.
        vocab_size: tokens in the vocabulary.
        hidden_size: the width of the residual stream.
        num_heads: heads of every layer that has heads and does not say otherwise.
        feed_forward: what follows each layer: ``swiglu``, ``bilinear``, ``moe``, a class name, a mapping with ``kind``, None for
            nothing; or a list with one of these for each block.
        intermediate_size: the width inside feed-forward layers that do not say otherwise; None for 8/3 hidden_size, rounded up to 8.
        norm: ``rms`` for RMS norms, ``layer`` for layer norms with their biases.
        norm_eps: epsilon of the norms; or a list with one for each block.
        final_norm_eps: epsilon of the last norm, None for that of the last block.
        embedding_norm: whether the embeddings are normalised, too, with the epsilon of the first block.
        initializer_range: standard deviation of random weights.
        tie_word_embeddings: whether the head's weights are those of the embedding.
        use_cache: whether a cache is made where none is given and no gradients are wanted.
        pad_token_id, bos_token_id, eos_token_id: special tokens, or None.

    Raises:
        InputError: an unknown key, layer, feed-forward layer or setting; with near matches.

    Examples:
        >>> StackConfig(layers=["gdn", "attention"], vocab_size=16, hidden_size=8, num_heads=2).num_hidden_layers
        2
    """

    model_type: ClassVar[str] = "transect_stack"  # pyright: ignore[reportIncompatibleVariableOverride]
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["cache"]  # pyright: ignore[reportIncompatibleVariableOverride]

    layers: list[Any] | tuple[Any, ...] = ("gdn",)
    vocab_size: int = 32000
    hidden_size: int = 256
    num_heads: int = 4
    feed_forward: Any = "swiglu"
    intermediate_size: int | None = None
    norm: str = "rms"
    norm_eps: float | list[float] | tuple[float, ...] = 1e-6
    final_norm_eps: float | None = None
    embedding_norm: bool = False
    initializer_range: float = 0.02
    tie_word_embeddings: bool = True
    use_cache: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    num_hidden_layers: int | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        """Check everything before anything is built."""
        known = [name for name in type(self).__dataclass_fields__ if not name.startswith("_")]
        for key in kwargs:
            if key not in _ALLOWED:
                raise InputError(f"StackConfig knows no key {key!r}; {near_matches(key, known)}.")
        self.layers = [dict(spec) if not isinstance(spec, str) else spec for spec in self.layers]
        if not self.layers or min(self.vocab_size, self.hidden_size) < 1:
            raise InputError(
                f"expected at least one layer and sizes of at least 1, got {len(self.layers)} layers, vocab_size {self.vocab_size} and"
                f" hidden_size {self.hidden_size}."
            )
        if self.num_hidden_layers not in (None, len(self.layers)):
            raise InputError(
                f"expected num_hidden_layers to be the number of layers, {len(self.layers)}, or None, got {self.num_hidden_layers}."
            )
        self.num_hidden_layers = len(self.layers)
        if self.intermediate_size is None:
            self.intermediate_size = -(-8 * self.hidden_size // 24) * 8
        if self.norm not in get_args(Norm):
            raise InputError(f"expected a norm that exists, got {self.norm!r}; {near_matches(str(self.norm), get_args(Norm))}.")
        self.block_eps()
        for spec in self.layers:
            resolve(spec, layer_kinds(), what="layer")
        for spec in self.feed_forwards():
            if spec is not None:
                resolve(spec, feed_forward_kinds(), what="feed-forward layer")
        super().__post_init__(**kwargs)

    def block_eps(self) -> list[float]:
        """The epsilon of the norms of each block.

        Raises:
            InputError: a list of another length than the layers.
        """
        if not isinstance(self.norm_eps, list | tuple):
            return [self.norm_eps] * len(self.layers)
        if len(self.norm_eps) != len(self.layers):
            raise InputError(f"expected a norm_eps for each of {len(self.layers)} layers, got {len(self.norm_eps)}.")
        return list(self.norm_eps)

    def feed_forwards(self) -> list[Any]:
        """What follows the layer of each block.

        Raises:
            InputError: a list of another length than the layers.
        """
        if not isinstance(self.feed_forward, list | tuple):
            return [self.feed_forward] * len(self.layers)
        if len(self.feed_forward) != len(self.layers):
            raise InputError(f"expected a feed-forward layer for each of {len(self.layers)} layers, got {len(self.feed_forward)}.")
        return list(self.feed_forward)
