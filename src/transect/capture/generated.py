"""`capture_generated`: a model answers prompts, and the activations of what it wrote are kept.

Texts are generated first, in batches with a KV cache, and read afterwards in one clean pass. Keeping activations while
generating would save that pass, which is a small part of the whole: a text is read far faster than it is written
(`benchmarks/monitor.py` measures the share). What is kept is therefore, by construction, what
`capture` gives for the finished text: no left padding, no cache, no rounding of one step at a time; and the last token,
which `generate` itself never reads, has its activation like any other.
"""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch

from transect._progress import progress as progress_bar
from transect.capture.activations import Activations
from transect.capture.guard import untouched
from transect.capture.reread import reread
from transect.data import Table
from transect.errors import InputError
from transect.models import Model, encode
from transect.models.speaking import check_speaks
from transect.sites import TokenRule, parse_tokens, resolve_sites

Finish = Literal["end", "length"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Generated:
    """What a model wrote, and its activations; ``n`` rows.

    ``generated["layers[10]"]`` is ``[m, d]``: a row per token or per text, as the token rule says. `aligned` gives the same
    numbers in the shape of `sequences`.
    """

    activations: Activations
    """The activations, with their table of rows (``row``, ``position`` and ``token_id`` for rules with a ``*``)."""
    sequences: torch.Tensor
    """``[n, T]`` int64: prompts padded on the left to one length, answers padded on the right."""
    mask: torch.Tensor
    """``[n, T]`` bool: the tokens of prompt and answer; False for padding and after a row's end."""
    prompt_length: int
    """How many columns the prompts take: column ``prompt_length`` holds each row's first generated token."""
    texts: tuple[str, ...]
    """What was written, without special tokens."""
    token_ids: tuple[tuple[int, ...], ...]
    """What was written, as token ids; a token that ended the text is the last of them."""
    finish: tuple[Finish, ...]
    """``end``: the model ended the text; ``length``: it was cut at `max_new_tokens`."""
    settings: Mapping[str, Any]
    """How it was generated, plain JSON values."""

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, site: str) -> torch.Tensor:
        """The activations at one site, ``[m, d]``."""
        return self.activations[site]

    def aligned(self, site: str) -> torch.Tensor:
        """``[n, T, d]``: the activations at one site in the shape of `sequences`, NaN for tokens that the rule does not read.

        Raises:
            InputError: the rule gives one row per text, which belongs to no one token.
        """
        values, rows = self.activations[site], self.activations.rows
        if "position" not in rows.column_names:
            raise InputError(
                f"the rule {self.activations.tokens!r} gives one row per text, which has no place among the tokens; capture 'generated[*]'."
            )
        row, position = torch.tensor(rows["row"].to_pylist()), torch.tensor(rows["position"].to_pylist())
        pad = self.mask.to(torch.uint8).argmax(dim=1)
        found = torch.full((*self.mask.shape, values.shape[1]), torch.nan, dtype=values.dtype)
        found[row, position + pad[row]] = values
        return found


def capture_generated(
    model: Model,
    prompts: Sequence[Any] | Table,
    *,
    sites: str | Sequence[str] = "layers[*]",
    tokens: str | TokenRule = "generated[*]",
    max_new_tokens: int,
    do_sample: bool = False,
    temperature: float | None = None,
    top_p: float | None = None,
    seed: int = 0,
    batch_size: int = 16,
    chat: bool = False,
    progress: bool | None = None,
) -> Generated:
    """Let a model answer prompts, and keep the activations of the generated tokens.

    Every generated token has its activation, the last one too, equal to that of one clean pass over the finished text.
    Settings that have no name here, such as which tokens end a text, are those of the model's own ``generation_config``. The
    model and the global random state are as before, also after an error.

    Args:
        model: from `transect.load`; one that generates.
        prompts: ``n`` texts, or conversations that wait for an answer, or a table of either.
        sites: names of places, as for `transect.capture`.
        tokens: ``generated[*]``, ``generated[0]``, ``generated[-1]``, ``generated[:]`` (the mean), ``prompt[-1]``, ``all`` (prompt
            and answer), or any other rule that needs no table.
        max_new_tokens: the most tokens to write.
        do_sample: draw tokens by their probability, instead of taking the likeliest.
        temperature: of the draw; above 0.
        top_p: draw among the likeliest tokens that have this probability together; in (0, 1].
        seed: of the draw. The same seed, prompts and batch size give the same texts.
        batch_size: how many prompts are answered at once. Prompts of like length go together.
        chat: write each plain text as one user turn of the chat template.
        progress: show a progress bar on stderr; None shows it on a terminal.

    Raises:
        InputError: the model cannot generate, a setting makes no sense, a conversation has its answer already, or a prompt leaves
            no room in the model's context.
        TokenRuleError: the rule needs a table, or selects nothing in some text.
        SiteError: a site does not exist.
        ModelError: an activation is NaN or infinite.

    Examples:
        >>> from transect.testing.tiny import tiny
        >>> made = capture_generated(tiny("llama"), ["The city of Paris", "Yes"], sites="layers[1]", max_new_tokens=4)
        >>> made["layers[1]"].shape, made.sequences.shape, made.finish
        (torch.Size([8, 16]), torch.Size([2, 9]), ('length', 'length'))
        >>> made.aligned("layers[1]").shape
        torch.Size([2, 9, 16])
    """
    module = check_speaks(model)
    rule = parse_tokens(tokens)
    _check_settings(rule, max_new_tokens=max_new_tokens, do_sample=do_sample, temperature=temperature, top_p=top_p, batch_size=batch_size)
    resolve_sites(model.structure, sites)  # before hours of writing, not after
    ids = _prompt_ids(model, prompts, max_new_tokens=max_new_tokens, chat=chat)
    settings: dict[str, Any] = {"max_new_tokens": max_new_tokens, "do_sample": do_sample}
    settings |= {name: value for name, value in (("temperature", temperature), ("top_p", top_p)) if value is not None}
    ends = _end_tokens(module)
    pad = _pad_token(model, module, ends)
    written: list[list[int]] = [[] for _ in ids]
    order = sorted(range(len(ids)), key=lambda row: (len(ids[row]), row))
    devices = [model.device] if model.device.type == "cuda" else []
    with untouched(model.module) as overwrites, torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        with overwrites:
            _generate(module, [ids[order[0]]], {**settings, "max_new_tokens": 1, "do_sample": False, "pad_token_id": pad}, model.device)
        with (
            overwrites if overwrites.any else contextlib.nullcontext(),
            progress_bar("writing", total=len(ids), unit="texts", shown=progress) as advance,
        ):
            for at in range(0, len(order), batch_size):
                rows = order[at : at + batch_size]
                new = _generate(module, [ids[row] for row in rows], {**settings, "pad_token_id": pad}, model.device)
                for row, answer in zip(rows, new, strict=True):
                    written[row] = _until_end(answer, ends)
                advance(len(rows))
    whole = [prompt + answer for prompt, answer in zip(ids, written, strict=True)]
    lengths = [len(prompt) for prompt in ids]
    acts = reread(model, whole, sites=sites, tokens=rule, prompts=lengths, progress=progress)
    sequences, mask = _padded(whole, lengths, pad)
    return Generated(
        activations=acts,
        sequences=sequences,
        mask=mask,
        prompt_length=max(lengths),
        texts=tuple(model.tokenizer.batch_decode(written, skip_special_tokens=True)) if model.tokenizer is not None else (),
        token_ids=tuple(map(tuple, written)),
        finish=tuple("end" if answer[-1] in ends else "length" for answer in written),
        settings={**settings, "seed": seed, "batch_size": batch_size, "chat": chat, "end_tokens": sorted(ends)},
    )


def _check_settings(
    rule: TokenRule, *, max_new_tokens: int, do_sample: bool, temperature: float | None, top_p: float | None, batch_size: int
) -> None:
    if rule.extent in ("span", "role"):
        raise InputError(
            f"the token rule {str(rule)!r} needs a table, and what will be written is in none; use 'generated[*]' or 'prompt[-1]'."
        )
    for name, value in (("max_new_tokens", max_new_tokens), ("batch_size", batch_size)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, got {value!r}.")
    if not do_sample and (temperature is not None or top_p is not None):
        raise InputError("temperature and top_p shape a draw, and do_sample=False draws nothing; pass do_sample=True, or leave them out.")
    if temperature is not None and not 0 < temperature < float("inf"):
        raise InputError(f"temperature must be above 0, got {temperature!r}; do_sample=False takes the likeliest token.")
    if top_p is not None and not 0 < top_p <= 1:
        raise InputError(f"top_p is a probability in (0, 1], got {top_p!r}.")


def _prompt_ids(model: Model, prompts: Sequence[Any] | Table, *, max_new_tokens: int, chat: bool) -> list[list[int]]:
    rows = (prompts.messages or prompts.texts) if isinstance(prompts, Table) else prompts
    if len(rows) == 0:
        raise InputError("expected at least one prompt, got none.")
    encoded = encode(model, rows, chat=chat)
    answered = [row for row, (ids, prompt) in enumerate(zip(encoded.ids, encoded.prompts, strict=True)) if prompt[1] < len(ids)]
    if answered:
        raise InputError(f"row {answered[0]} ends with an answer (role 'assistant') already; leave it out, and the model writes its own.")
    longest = max(range(len(encoded)), key=lambda row: len(encoded.ids[row]))
    if model.max_length is not None and len(encoded.ids[longest]) + max_new_tokens > model.max_length:
        raise InputError(
            f"row {longest} has {len(encoded.ids[longest])} tokens, and with max_new_tokens={max_new_tokens} it passes the model's limit of "
            f"{model.max_length}. Shorten the prompt, or ask for fewer tokens."
        )
    return [list(ids) for ids in encoded.ids]


def _generate(module: Any, prompts: Sequence[list[int]], settings: Mapping[str, Any], device: torch.device) -> list[list[int]]:
    """The new tokens of each prompt; whatever follows a row's end is still there."""
    width = max(map(len, prompts))
    ids = torch.tensor([[settings["pad_token_id"]] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    plain = {"num_beams": 1, "num_return_sequences": 1, "use_cache": True, "return_dict_in_generate": False}
    out = module.generate(input_ids=ids.to(device), attention_mask=mask.to(device), **plain, **settings)
    return out[:, width:].tolist()


def _end_tokens(module: Any) -> frozenset[int]:
    given = getattr(getattr(module, "generation_config", None), "eos_token_id", None)
    return frozenset() if given is None else frozenset([given] if isinstance(given, int) else given)


def _pad_token(model: Model, module: Any, ends: frozenset[int]) -> int:
    """Which token fills a row does not matter, since nothing looks at it."""
    for source in (getattr(module, "generation_config", None), model.tokenizer):
        pad = getattr(source, "pad_token_id", None)
        if isinstance(pad, int):
            return pad
    return min(ends, default=0)


def _until_end(answer: Sequence[int], ends: frozenset[int]) -> list[int]:
    stop = next((at + 1 for at, token in enumerate(answer) if token in ends), len(answer))
    return list(answer[:stop])


def _padded(whole: Sequence[Sequence[int]], lengths: Sequence[int], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """``[n, T]`` ids and mask, the first generated token of every row in one column."""
    start = max(lengths)
    total = start + max(len(ids) - length for ids, length in zip(whole, lengths, strict=True))
    sequences, mask = np.full((len(whole), total), pad, dtype=np.int64), np.zeros((len(whole), total), dtype=bool)
    for row, (ids, length) in enumerate(zip(whole, lengths, strict=True)):
        at = slice(start - length, start - length + len(ids))
        sequences[row, at], mask[row, at] = ids, True
    return torch.from_numpy(sequences), torch.from_numpy(mask)
