"""What a model says next, and how surprised it is by a text, without keeping logits of every position.

The backbone runs over right-padded batches as in `transect.capture.capture`; the language-model head then sees only the
hidden states that were asked for, a few at a time, so memory holds ``[chunk, v]`` and never ``[n, t, v]`` (see
`transect.capture.head`).

Per-token losses are ``-log p(token | the tokens before it)`` in nats. Min-K% (Shi et al. 2024, "Detecting Pretraining Data
from Large Language Models") is the mean log-probability of the k% least likely tokens; the ratio of the loss to the zlib
size is of Carlini et al. 2021, "Extracting Training Data from Large Language Models".
"""

import dataclasses
import zlib
from collections.abc import Sequence

import numpy as np
import torch

from transect.capture.examples import Data
from transect.capture.head import speaking
from transect.capture.rows import row_begins, targets_of
from transect.errors import InputError, ModelError, TokenRuleError
from transect.models import Model
from transect.sites import TokenRule, parse_tokens

_KEPT_BYTES = 2**30  # the most that `logits=True` may keep


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class NextToken:
    """What a model would say next, after one token of each of ``n`` texts.

    Args:
        entropy: ``[n]``, of the distribution over the whole vocabulary, in nats.
        top_probability: ``[n]``, of the likeliest token.
        top_token: ``[n]``, its id.
        candidates: ``[c]``, the token ids that were asked about.
        log_probabilities: ``[n, c]``, their natural logarithms of probability among the whole vocabulary.
        logits: ``[n, v]`` float32, only where asked for.
    """

    entropy: np.ndarray
    top_probability: np.ndarray
    top_token: np.ndarray
    candidates: tuple[int, ...] = ()
    log_probabilities: np.ndarray
    logits: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.entropy)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TokenLosses:
    """How unlikely each token of ``n`` texts was, given those before it.

    The first token of a text has nothing before it and no loss, so a text of ``t`` tokens has ``t - 1``.

    Args:
        values: ``[sum of lengths]``, negative log-likelihoods in nats, text after text.
        lengths: ``[n]``, how many each text has.
        zlib_bytes: ``[n]``, the size in bytes of each whole text compressed by zlib (also of a text that was cut).
    """

    values: np.ndarray
    lengths: np.ndarray
    zlib_bytes: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths)

    def of(self, row: int) -> np.ndarray:
        """The losses of one text, ``[t - 1]``."""
        begins = np.concatenate([[0], np.cumsum(self.lengths)])
        return self.values[begins[row] : begins[row + 1]]

    @property
    def mean(self) -> np.ndarray:
        """``[n]``: the mean loss of each text, in nats a token; its exponential is the perplexity."""
        begins = np.concatenate([[0], np.cumsum(self.lengths)[:-1]])
        return np.add.reduceat(self.values, begins) / self.lengths

    @property
    def zlib_ratio(self) -> np.ndarray:
        """``[n]``: summed loss over compressed size, in nats a byte; low where a text is likelier than its repetitions explain."""
        return self.mean * self.lengths / self.zlib_bytes

    def min_k(self, percent: float = 20.0) -> np.ndarray:
        """``[n]``: the mean log-probability of the `percent` least likely tokens of each text, at least one token.

        Raises:
            InputError: the share is not above 0 and at most 100.

        Examples:
            >>> losses = TokenLosses(values=np.array([1.0, 4.0, 2.0, 3.0]), lengths=np.array([3, 1]), zlib_bytes=np.array([9, 9]))
            >>> losses.min_k(34).tolist(), losses.mean.round(2).tolist()
            ([-4.0, -3.0], [2.33, 3.0])
        """
        if not 0 < percent <= 100:
            raise InputError(f"min_k takes a share of tokens in percent, above 0 and at most 100, got {percent}; 20 is usual.")
        found = np.empty(len(self))
        for row, losses in enumerate(np.split(self.values, np.cumsum(self.lengths)[:-1])):
            n_kept = max(1, int(len(losses) * percent / 100))
            found[row] = -np.sort(losses)[len(losses) - n_kept :].mean()
        return found


def next_token(
    model: Model,
    data: Data,
    *,
    tokens: str | int | TokenRule = "last",
    candidates: Sequence[int | str] | None = None,
    logits: bool = False,
    chat: bool = False,
    truncate: bool = False,
    batch_tokens: int | None = None,
    progress: bool | None = None,
) -> NextToken:
    """What the model would say after one token of each text: entropy, likeliest token, and candidates' log-probabilities.

    Args:
        model: a causal language model with its head, from `transect.load`.
        data: as for `capture`.
        tokens: a rule that selects one token, such as ``last`` or ``prompt[-1]``.
        candidates: token ids, or strings that are one token each to this tokenizer (mind the space in front: ``" Yes"``).
        logits: keep all logits ``[n, v]`` too; refused above 1 GiB.
        chat: write each text as one user turn of the chat template, ending in the opening of the answer.
        truncate: cut texts longer than the model's context, and count them, instead of refusing them.
        batch_tokens: the most tokens in a batch, padding included; None chooses by device.
        progress: show a progress bar on stderr; None shows it on a terminal.

    Raises:
        ModelError: the model has no language-model head, is not causal, or says something else when its head runs alone;
            a logit is NaN or infinite (the row is named).
        TokenRuleError: the rule does not select one token.
        InputError: a candidate is no single token; too many logits; and as for `capture`.

    Examples:
        >>> from transect.testing.tiny import tiny
        >>> said = next_token(tiny("llama"), ["The city of Paris", "Yes"], candidates=["i", 7])
        >>> said.entropy.shape, said.log_probabilities.shape, bool((said.top_probability < 1).all())
        ((2,), (2, 2), True)
    """
    rule = parse_tokens(tokens)
    if rule.reduces != "select":
        raise TokenRuleError(f"what comes next is asked after one token, got the rule {str(rule)!r}, which reads several; use 'last'.")
    with speaking(model, data, rule, chat=chat, truncate=truncate) as voice:
        wanted = _candidate_ids(model, candidates or (), voice.vocabulary)
        n = len(voice.examples)
        if logits and n * voice.vocabulary * 4 > _KEPT_BYTES:
            raise InputError(
                f"all logits of {n} texts over {voice.vocabulary} tokens take {n * voice.vocabulary * 4 / 2**30:.1f} GiB, the most is "
                f"{_KEPT_BYTES / 2**30:.0f}. Ask for candidates=..., or give fewer texts at a time."
            )
        found = np.empty((n, 2))
        top = np.empty(n, dtype=np.int64)
        asked = np.empty((n, len(wanted)))
        kept = np.empty((n, voice.vocabulary), dtype=np.float32) if logits else None
        for rows, hidden in voice.hidden(batch_tokens=batch_tokens, progress=progress):
            for part, values in voice.logits(hidden):
                at = rows[part]
                _check_finite(values, at)
                logs = torch.log_softmax(values, dim=-1)
                likeliest = logs.max(dim=-1)
                entropy = -(logs.exp() * logs).sum(dim=-1)
                found[at] = torch.stack([entropy, likeliest.values.exp()], dim=1).double().cpu().numpy()
                top[at] = likeliest.indices.cpu().numpy()
                asked[at] = logs[:, list(wanted)].double().cpu().numpy()
                if kept is not None:
                    kept[at] = values.cpu().numpy()
    return NextToken(
        entropy=found[:, 0], top_probability=found[:, 1], top_token=top, candidates=wanted, log_probabilities=asked, logits=kept
    )


def token_losses(
    model: Model,
    data: Data,
    *,
    chat: bool = False,
    truncate: bool = False,
    batch_tokens: int | None = None,
    progress: bool | None = None,
) -> TokenLosses:
    """Negative log-likelihood of every token of every text after its first, in nats; the arguments are those of `next_token`.

    Raises:
        InputError: a text has one token only, so nothing in it was predicted (the row is named); and as for `next_token`.
        ModelError: as for `next_token`.

    Examples:
        >>> from transect.testing.tiny import tiny
        >>> losses = token_losses(tiny("gpt2"), ["The city of Paris", "Yes"])
        >>> losses.lengths.tolist(), losses.values.shape, losses.mean.shape
        ([4, 1], (5,), (2,))
    """
    rule = parse_tokens("all")
    with speaking(model, data, rule, chat=chat, truncate=truncate) as voice:
        examples = voice.examples
        short = np.flatnonzero(examples.lengths < 2)
        if len(short):
            raise InputError(
                f"row {short[0]} (counted from 0) is one token long, so none of its tokens is predicted from another; {len(short)} rows are "
                f"like it. Leave them out."
            )
        begins = row_begins(examples, rule, tokens=None)
        losses = np.full(int(begins[-1]), np.nan)
        for rows, hidden in voice.hidden(batch_tokens=batch_tokens, progress=progress):
            at = targets_of(begins, rows)
            predicts = ~np.isin(at, begins[1:] - 1)  # a text's last token predicts nothing that is there
            for part, values in voice.logits(hidden[torch.from_numpy(predicts)]):
                where = at[predicts][part]
                _check_finite(values, np.searchsorted(begins, where, side="right") - 1)
                following = torch.from_numpy(examples.ids[where + 1].astype(np.int64)).to(values.device)
                losses[where + 1] = torch.nn.functional.cross_entropy(values, following, reduction="none").double().cpu().numpy()
    kept = np.ones(len(losses), dtype=bool)
    kept[begins[:-1]] = False
    texts = examples.table.texts if examples.table is not None else ()
    sizes = np.array([len(zlib.compress(text.encode())) for text in texts])
    return TokenLosses(values=losses[kept], lengths=examples.lengths - 1, zlib_bytes=sizes)


def _candidate_ids(model: Model, candidates: Sequence[int | str], vocabulary: int) -> tuple[int, ...]:
    """Token ids of the candidates, each checked."""
    if isinstance(candidates, str):
        raise InputError(f"expected a sequence of candidates, got one string; write [{candidates!r}].")
    found = []
    for candidate in candidates:
        if isinstance(candidate, str):
            ids = [] if model.tokenizer is None else model.tokenizer(candidate, add_special_tokens=False)["input_ids"]
            if len(ids) != 1:
                pieces = [] if model.tokenizer is None else model.tokenizer.convert_ids_to_tokens(ids)
                raise InputError(
                    f"the candidate {candidate!r} is {len(ids)} tokens to this tokenizer ({pieces}), expected one. Try it with a space in "
                    f"front ({' ' + candidate.strip()!r}), another word, or its token id."
                )
            found.append(int(ids[0]))
        elif isinstance(candidate, bool) or not 0 <= int(candidate) < vocabulary:
            raise InputError(f"the candidate {candidate!r} is no token id; they go from 0 to {vocabulary - 1}.")
        else:
            found.append(int(candidate))
    return tuple(found)


def _check_finite(logits: torch.Tensor, rows: np.ndarray) -> None:
    """Minus infinity stands for tokens that a model can never say; NaN and plus infinity stand for nothing."""
    broken = (logits.isnan() | logits.isposinf()).any(dim=-1)
    if broken.any():
        row = int(rows[int(broken.nonzero()[0])])
        raise ModelError(
            f"row {row} (counted from 0) has NaN or infinite logits. float16 overflows at 65504: load the model with dtype='float32' or "
            f"'bfloat16', or look at that text."
        )
