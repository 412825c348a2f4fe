"""A language model of sequence layers: embedding, blocks of norm, layer, norm and feed-forward layer, norm, head."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import GenerationMixin, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import ModelOutput

from transect.errors import InputError
from transect.mixers.layers import MixerCache, SequenceLayer
from transect.mixers.models.cache import StackCache
from transect.mixers.models.config import StackConfig
from transect.mixers.models.kinds import feed_forward_kinds, layer_kinds, make, resolve


@dataclass
class StackOutput(ModelOutput):
    """What `StackModel` gives.

    Args:
        last_hidden_state: ``[B, T, hidden_size]``, after the last norm.
        cache: to go on from, or None.
        hidden_states: the stream before each block and after the last norm, where it was asked for.
    """

    last_hidden_state: torch.Tensor | None = None
    cache: StackCache | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None


@dataclass
class StackLMOutput(ModelOutput):
    """What `StackForCausalLM` gives.

    Args:
        loss: the mean cross-entropy of the next tokens, where labels were given.
        logits: ``[B, T, vocab_size]``, of the last tokens only where that was asked for.
        cache: to go on from, or None.
        hidden_states: as in `StackOutput`.
    """

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    cache: StackCache | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None


class StackBlock(GradientCheckpointingLayer):
    """``x + layer(norm(x))``, then ``x + mlp(norm(x))`` where there is one.

    An `mlp` that remembers tokens has a place in the cache of its own, after those of all layers.
    """

    def __init__(self, config: StackConfig, layer_idx: int) -> None:
        super().__init__()
        eps = config.block_eps()[layer_idx]
        self.norm = _norm(config, eps)
        kind, settings = resolve(config.layers[layer_idx], layer_kinds(), what="layer")
        usual = {"hidden_size": config.hidden_size, "num_heads": config.num_heads, "norm_eps": eps, "layer_idx": layer_idx}
        self.mixer = make(kind, settings, **usual)
        self.mlp_norm = self.mlp = None
        spec = config.feed_forwards()[layer_idx]
        if spec is not None:
            kind, settings = resolve(spec, feed_forward_kinds(), what="feed-forward layer")
            self.mlp_norm = _norm(config, eps)
            sizes = {"hidden_size": config.hidden_size, "intermediate_size": config.intermediate_size}
            self.mlp = make(kind, settings, **sizes, layer_idx=len(config.layers) + layer_idx)

    def forward(
        self,
        x: torch.Tensor,
        *,
        memory: MixerCache | None = None,
        attention_mask: torch.Tensor | None = None,
        cu_seqlens: torch.Tensor | Sequence[int] | None = None,
    ) -> torch.Tensor:
        """``[B, T, hidden_size]`` to the same."""
        x = x + self.mixer(self.norm(x), cache=memory, attention_mask=attention_mask, cu_seqlens=cu_seqlens)
        if self.mlp is None or self.mlp_norm is None:
            return x
        if isinstance(self.mlp, SequenceLayer):
            return x + self.mlp(self.mlp_norm(x), cache=memory, attention_mask=attention_mask, cu_seqlens=cu_seqlens)
        return x + self.mlp(self.mlp_norm(x))


def _norm(config: StackConfig, eps: float) -> nn.Module:
    kind = nn.RMSNorm if config.norm == "rms" else nn.LayerNorm
    return kind(config.hidden_size, eps=eps)


class StackPreTrainedModel(PreTrainedModel):
    """What both models share."""

    config_class = StackConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["StackBlock"]  # noqa: RUF012 - transformers wants a list
    _is_stateful = True


class StackModel(StackPreTrainedModel):
    """The stack without a head: tokens to the residual stream after the last norm.

    Args:
        config: what it is made of.

    Examples:
        >>> config = StackConfig(layers=["gla"], vocab_size=16, hidden_size=8, num_heads=2)
        >>> StackModel(config)(torch.tensor([[1, 2, 3]])).last_hidden_state.shape
        torch.Size([1, 3, 8])
    """

    def __init__(self, config: StackConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        eps = config.block_eps()
        self.embed_norm = _norm(config, eps[0]) if config.embedding_norm else None
        self.layers = nn.ModuleList([StackBlock(config, index) for index in range(len(config.layers))])
        self.norm = _norm(config, eps[-1] if config.final_norm_eps is None else config.final_norm_eps)
        self.gradient_checkpointing = False
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        *,
        inputs_embeds: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        cache: StackCache | None = None,
        use_cache: bool | None = None,
        cu_seqlens: torch.Tensor | Sequence[int] | None = None,
        output_hidden_states: bool | None = None,
    ) -> StackOutput:
        """The residual stream, normalised.

        Args:
            input_ids: ``[B, T]``, or None with `inputs_embeds`.
            inputs_embeds: ``[B, T, hidden_size]``.
            attention_mask: ``[B, T]``, or ``[B, past + T]`` with a cache; 0 for padding, wherever it stands.
            cache: goes on from it, and brings it up to date.
            use_cache: whether to make a cache where none is given.
            cu_seqlens: where sequences packed into a batch of 1 begin, and T.
            output_hidden_states: whether to give the stream before each block and after the last norm, too.

        Raises:
            InputError: neither or both of `input_ids` and `inputs_embeds`, a mask of another length, or another kind of cache.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise InputError("expected input_ids or inputs_embeds, one of them.")
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        x = x if self.embed_norm is None else self.embed_norm(x)
        training = self.training and torch.is_grad_enabled()
        replayed = training and self.gradient_checkpointing
        if replayed and (cache is not None or use_cache):
            raise InputError("expected no cache with gradient checkpointing: blocks run twice, and would write to it twice.")
        if cache is None and (self.config.use_cache and not training if use_cache is None else use_cache):
            cache = StackCache()
        if cache is not None and not isinstance(cache, StackCache):
            raise InputError(f"expected a StackCache, got {type(cache).__name__}. Pass none to begin, then what the model gave back.")
        before, tokens = 0 if cache is None else cache.length, x.shape[1]
        if attention_mask is not None:
            if attention_mask.ndim != 2 or len(attention_mask) != len(x) or attention_mask.shape[1] not in (tokens, before + tokens):
                raise InputError(
                    f"expected attention_mask [{len(x)}, {tokens}] or [{len(x)}, {before + tokens}], got {list(attention_mask.shape)}."
                )
            attention_mask = attention_mask[:, attention_mask.shape[1] - tokens :]
            if bool(attention_mask.all()):
                attention_mask = None
        memory = None if cache is None else cache.memory
        seen = []
        for block in self.layers:
            seen.append(x)
            x = block(x, memory=memory, attention_mask=attention_mask, cu_seqlens=cu_seqlens)
        x = self.norm(x)
        if cache is not None:
            cache.length += tokens
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        return StackOutput(last_hidden_state=x, cache=cache, hidden_states=(*seen, x) if wanted else None)


class StackForCausalLM(StackPreTrainedModel, GenerationMixin):
    """A language model of sequence layers; see `build`.

    Args:
        config: what it is made of.

    Examples:
        >>> model = StackForCausalLM(StackConfig(layers=["gla"], vocab_size=16, hidden_size=8, num_heads=2))
        >>> model(torch.tensor([[1, 2, 3]])).logits.shape
        torch.Size([1, 3, 16])
        >>> model.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=2, do_sample=False).shape
        torch.Size([1, 5])
    """

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}  # noqa: RUF012 - transformers reads it so

    def __init__(self, config: StackConfig) -> None:
        super().__init__(config)
        self.model = StackModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        *,
        inputs_embeds: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        cache: StackCache | None = None,
        use_cache: bool | None = None,
        cu_seqlens: torch.Tensor | Sequence[int] | None = None,
        output_hidden_states: bool | None = None,
        logits_to_keep: int = 0,
        num_items_in_batch: torch.Tensor | int | None = None,
        return_dict: bool | None = None,
    ) -> StackLMOutput:
        """Logits of the next tokens, and the loss where labels are given.

        Args:
            input_ids, inputs_embeds, attention_mask, cache, use_cache, cu_seqlens, output_hidden_states: as in `StackModel.forward`.
            labels: ``[B, T]``, the tokens themselves (they are shifted here); -100 does not count, nor does padding, nor what follows it.
            logits_to_keep: of how many of the last tokens to make logits; 0 for all.
            num_items_in_batch: what the sum of the losses is divided by, where gradients are accumulated; None for the tokens here.
            return_dict: True or None; what is given back has names, and its `to_tuple()` has none.

        Raises:
            InputError: as in `StackModel.forward`; labels with `logits_to_keep`; or ``return_dict=False``.
        """
        if return_dict is False:
            raise InputError("expected return_dict to be True or None, got False. Take `to_tuple()` of what is given back.")
        if labels is not None and logits_to_keep:
            raise InputError(f"expected logits of all tokens with labels, got logits_to_keep = {logits_to_keep}.")
        found = self.model(
            input_ids,
            inputs_embeds=inputs_embeds,
            attention_mask=attention_mask,
            cache=cache,
            use_cache=use_cache,
            cu_seqlens=cu_seqlens,
            output_hidden_states=output_hidden_states,
        )
        x = found.last_hidden_state
        logits = self.lm_head(x[:, -logits_to_keep:] if logits_to_keep else x)
        loss = None
        if labels is not None:
            counted = labels
            if attention_mask is not None:  # neither padding nor a first token, which padding stands before
                real = attention_mask[:, -labels.shape[1] :].bool()
                counted = labels.masked_fill(~(real & functional.pad(real[:, :-1], (1, 0), value=True)), -100)
            if cu_seqlens is not None:  # the last token of a sequence does not say the first of the next
                counted = counted.clone()
                counted[:, [int(bound) for bound in cu_seqlens[1:-1] if bound < counted.shape[1]]] = -100
            target = counted[:, 1:].flatten()
            total = functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), target, ignore_index=-100, reduction="sum")
            loss = total / ((target != -100).sum().clamp_min(1) if num_items_in_batch is None else num_items_in_batch)
        return StackLMOutput(loss=loss, logits=logits, cache=found.cache, hidden_states=found.hidden_states)

    def _prepare_cache_for_generation(  # pyright: ignore[reportIncompatibleMethodOverride] - what else it gets is for other caches
        self,
        generation_config: Any,
        model_kwargs: dict[str, Any],
        *rest: Any,  # noqa: ARG002
    ) -> None:
        if generation_config.cache_implementation is not None:
            raise InputError(f"a stack has one kind of cache; got cache_implementation = {generation_config.cache_implementation!r}.")
        if generation_config.use_cache and model_kwargs.get("cache") is None:
            model_kwargs["cache"] = StackCache()


def build(config: StackConfig) -> StackForCausalLM:
    """A language model with random weights, a transformers `PreTrainedModel`: it generates, saves, loads and trains with its Trainer.

    Args:
        config: what it is made of.

    Examples:
        >>> model = build(StackConfig(layers=["gdn", {"kind": "attention", "window": 8}], vocab_size=16, hidden_size=8, num_heads=2))
        >>> [type(block.mixer).__name__ for block in model.model.layers]
        ['GatedDeltaNet', 'Attention']
    """
    return StackForCausalLM(config)
