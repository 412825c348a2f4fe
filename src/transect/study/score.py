"""What a probe says of texts, one score per text or per token."""

import csv
import dataclasses
import io
import os

import torch

from transect._files import write_text
from transect.capture import capture
from transect.data import Table
from transect.errors import InputError, MismatchError
from transect.linear import Readout
from transect.models import Model


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """Scores of texts or of their tokens.

    Args:
        texts: ``[n]``.
        rows: which text each score belongs to.
        tokens: the token each score belongs to; None where there is one score per text.
        scores: ``[m]``, or ``[m, k]`` for more than two classes.
        predicted: the class or number each score stands for.
        probabilities: ``[m, classes]``; None where the probe claims none.
        classes: the classes, in the order of the columns; None for a number.
    """

    texts: tuple[str, ...]
    rows: tuple[int, ...]
    tokens: tuple[str, ...] | None
    scores: torch.Tensor
    predicted: tuple[object, ...]
    probabilities: torch.Tensor | None
    classes: tuple[object, ...] | None

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Column names and rows, as text."""
        names = ["row", "text" if self.tokens is None else "token"]
        many = self.scores.ndim == 2
        names += [f"score {label}" for label in self.classes or ()] if many else ["score"]
        if not many and self.probabilities is not None and self.classes is not None:
            names.append(f"p({self.classes[1]})")
        names.append("prediction")
        lines = []
        for index, row in enumerate(self.rows):
            line = [str(row), self.texts[row] if self.tokens is None else repr(self.tokens[index])[1:-1]]
            line += [f"{value:.4f}" for value in self.scores[index].reshape(-1).tolist()]
            if not many and self.probabilities is not None:
                line.append(f"{float(self.probabilities[index, 1]):.4f}")
            lines.append([*line, str(self.predicted[index])])
        return names, lines

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the table as CSV, atomically."""
        names, lines = self.table()
        text = io.StringIO()
        csv.writer(text).writerows([names, *lines])
        write_text(path, text.getvalue())


def score_texts(
    readout: Readout,
    model: Model,
    texts: Table,
    *,
    per_token: bool = False,
    chat: bool = False,
    truncate: bool = False,
    force: bool = False,
    shown: bool | None = None,
) -> Scored:
    """Score texts with a probe.

    Args:
        readout: the probe; its origin says where it reads.
        model: the model it was fitted on.
        texts: what to score; labels are not needed.
        per_token: score every token instead of the tokens that the probe's own rule reads.
        chat: wrap each text in the tokenizer's chat template; a probe that was fitted so is scored so without being asked.
        truncate: cut texts longer than the model's context instead of refusing them.
        force: score although the probe was fitted on another model.
        shown: show a progress bar; None shows it on a terminal.

    Raises:
        MismatchError: the probe was fitted on another model or without the chat template, or reads another width.
        InputError: the probe does not say where it reads.
    """
    site, rule = readout.origin.site, readout.origin.tokens
    if site is None or rule is None:
        raise InputError("this probe does not know its site and token rule; fit it with transect.probe, or set its origin.")
    readout.origin.check_model(model.fingerprint, force=force)
    fitted_in_chat = bool(readout.origin.settings.get("chat", False))
    if chat and not fitted_in_chat and not force:
        raise MismatchError(
            "this probe was fitted to plain texts, so texts in the chat template would mean nothing to it. Leave out --chat, or force it."
        )
    chat = chat or fitted_in_chat
    acts = capture(model, texts, sites=site, tokens="all" if per_token else rule, chat=chat, truncate=truncate, progress=shown)
    x = acts[site]
    scores = readout.scores(x)
    tokens = None
    if per_token and model.tokenizer is not None:
        ids = acts.rows["token_id"].to_pylist()
        tokens = tuple(model.tokenizer.convert_ids_to_tokens(ids))
    return Scored(
        texts=texts.texts,
        rows=tuple(acts.rows["row"].to_pylist()),
        tokens=tokens,
        scores=scores,
        predicted=tuple(readout.predict(x)),
        probabilities=None if readout.link == "identity" else readout.probabilities(x),
        classes=readout.classes,
    )
