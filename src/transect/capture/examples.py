"""What is run: token ids or tensors, and which token positions are read in each."""

import dataclasses
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch

from transect.data import Table, read_table
from transect.errors import InputError, TableError, TokenRuleError
from transect.models import Encoded, Model, encode
from transect.sites import TokenRule

Data = Table | Sequence[str] | torch.Tensor

_PIECE = 2048  # texts that are tokenised at once


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Examples:
    """``n`` examples, ready to be cut into batches."""

    kind: Literal["tokens", "tensor"]
    """Whether each example is a text or one row of a tensor."""
    lengths: np.ndarray
    """``[n]`` int64: tokens of each text; for tensors the size of the second axis, or 1."""
    ids: np.ndarray
    """``[sum of lengths]`` int32: the token ids of all texts, one after the other; empty for tensors."""
    reads: np.ndarray
    """``[n, 2]`` int64: the token range that the rule reads in each text; empty for tensors, whose tokens the model makes."""
    tensor: torch.Tensor | None = None
    """``[n, ...]``: the examples themselves, where they are no texts."""
    table: Table | None = None
    """The texts with their labels and groups."""
    digest: str
    """A hash of the data as it was given."""
    n_truncated: int = 0
    """How many texts were cut to the model's context."""

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def offsets(self) -> np.ndarray:
        """``[n + 1]`` int64: where each text's ids begin."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def inputs_digest(self) -> str:
        """A hash of what runs through the model and where it is read: it differs when the tokenizer does."""
        hasher = hashlib.blake2b(self.digest.encode(), digest_size=16)
        for array in (self.lengths, self.ids, self.reads):
            hasher.update(array.tobytes())
        return hasher.hexdigest()


def read_examples(model: Model, data: Data, rule: TokenRule, *, chat: bool, truncate: bool) -> Examples:
    """Texts to token ids and read positions; tensors as they are.

    Raises:
        InputError: the data does not suit the model: tensors for a model that takes text, text for one that does not, an
            empty tensor; and what `transect.models.encode` and `transect.read_table` refuse.
        TokenRuleError: the rule selects nothing in some text; the row is named.
    """
    if isinstance(data, torch.Tensor):
        return _tensor_examples(model, data, chat=chat)
    if model.takes != "tokens":
        raise InputError(f"{model.name} takes tensors, got {type(data).__name__}; give one tensor [n, ...] with an example per row.")
    table = data if isinstance(data, Table) else read_table(data)
    lengths, ids, reads, n_truncated = [], [], [], 0
    for at, encoded in _encode(model, table, rule, chat=chat, truncate=truncate):
        lengths.append(np.fromiter(map(len, encoded.ids), dtype=np.int64, count=len(encoded)))
        ids.append(np.fromiter(itertools.chain.from_iterable(encoded.ids), dtype=np.int32, count=int(lengths[-1].sum())))
        reads.append(_reads(encoded, rule, at))
        n_truncated += encoded.n_truncated
    return Examples(
        kind="tokens",
        lengths=np.concatenate(lengths),
        ids=np.concatenate(ids),
        reads=np.concatenate(reads),
        table=table,
        digest=table.digest,
        n_truncated=n_truncated,
    )


def _encode(model: Model, table: Table, rule: TokenRule, *, chat: bool, truncate: bool) -> Iterator[tuple[int, Encoded]]:
    """Token ids piece by piece, each with the row where it begins: a tokenizer keeps kilobytes per text while it works."""
    rows, spans, role = table.messages or table.texts, _spans(table, rule), rule.column if rule.extent == "role" else None
    for at in range(0, len(rows), _PIECE):
        piece = slice(at, at + _PIECE)
        try:
            cut = None if spans is None else spans[piece]
            yield at, encode(model, rows[piece], chat=chat, truncate=truncate, spans=cut, role=role)
        except InputError:
            if len(rows) > _PIECE:
                encode(model, rows, chat=chat, truncate=truncate, spans=spans, role=role)  # refuses again, counting over all rows
            raise


def _reads(encoded: Encoded, rule: TokenRule, first: int) -> np.ndarray:
    """``[n, 2]``: the token range that the rule reads in each text; `first` is the number of the first row."""
    reads = np.empty((len(encoded), 2), dtype=np.int64)
    for row, ids in enumerate(encoded.ids):
        try:
            span = None if encoded.spans is None else encoded.spans[row]
            positions = rule.positions(len(ids), span=span, prompt=encoded.prompts[row])
        except TokenRuleError as error:
            raise TokenRuleError(f"row {first + row} (counted from 0): {error}") from None
        reads[row] = positions.start, positions.stop
    return reads


def _spans(table: Table, rule: TokenRule) -> Sequence[Any] | None:
    """The spans that the rule reads, in the form that `encode` takes."""
    if rule.extent != "span" or rule.column is None:
        return None
    if rule.column not in table.spans:
        known = ", ".join(map(repr, table.spans)) or "none"
        raise TableError(
            f"the token rule {str(rule)!r} needs a span column {rule.column!r}, the table {table.name!r} has {known}. "
            f"Read the table with span={rule.column!r} (--span {rule.column})."
        )
    # Those of chats count in the contents, one message a line, and are found there under the template.
    return table.spans[rule.column]


def _tensor_examples(model: Model, data: torch.Tensor, *, chat: bool) -> Examples:
    if model.takes != "tensor":
        raise InputError(f"{model.name} takes text, got a tensor of shape {list(data.shape)}; give a table or a list of texts.")
    if chat:
        raise InputError("chat templates are for text; leave chat (--chat) out for a tensor.")
    if data.ndim < 2 or len(data) == 0:
        raise InputError(f"expected a tensor [n, ...] with at least one example of at least one number, got shape {list(data.shape)}.")
    # Three axes are [n, t, d]; images [n, c, h, w] and vectors [n, d] count as one token each until the model says more.
    length = data.shape[1] if data.ndim == 3 else 1
    hasher = hashlib.blake2b(f"{data.dtype} {list(data.shape)}".encode(), digest_size=16)
    for rows in data.detach().split(1024):
        hasher.update(rows.cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return Examples(
        kind="tensor",
        lengths=np.full(len(data), length, dtype=np.int64),
        ids=np.empty(0, dtype=np.int32),
        reads=np.empty((0, 2), dtype=np.int64),
        tensor=data.detach(),
        digest=hasher.hexdigest(),
    )
