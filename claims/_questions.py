"""Questions with one-word answers, made from the packaged facts, and whether the demo model answers them rightly.

An answer is its first token. Answers that begin with the same token as another one of their kind are left out, because the first token
would not tell them apart. The model's answer is the likeliest among the answers of the kind.
"""

import dataclasses
import functools
import random
from collections.abc import Mapping

import numpy as np
import torch

import transect
from claims._shared import demo_model
from transect.capture import next_token
from transect.data.sets.rows import facts

QUESTION_SITES = ("layers[6]", "layers[9]", "layers[12]")
QUESTIONS = {
    "cities": "In which country is the city of {}?",
    "books": "Who wrote the book {}?",
    "elements": "What is the chemical symbol of {}?",
    "animals": "What kind of animal is {}?",
    "sums": "What is {}?",
}
_COLUMNS = {
    "cities": ("cities", "city", "country"),
    "books": ("books", "title", "author"),
    "elements": ("elements", "element", "symbol"),
    "animals": ("animals", "animal", "class"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """Questions of one kind: ``n`` subjects, their answers, and the token each answer of the kind begins with."""

    name: str
    subjects: tuple[str, ...]
    answers: tuple[str, ...]
    first: Mapping[str, int]

    @property
    def groups(self) -> np.ndarray:
        """``[n]``: questions with one answer go together."""
        return np.array([f"{self.name}: {answer}" for answer in self.answers])

    @property
    def texts(self) -> list[str]:
        """``[n]``: the questions."""
        return [QUESTIONS[self.name].format(subject) for subject in self.subjects]

    @property
    def prompts(self) -> list[str]:
        """``[n]``: the questions, waiting for an answer."""
        return [f"Question: {text}\nAnswer:" for text in self.texts]

    @property
    def gold(self) -> np.ndarray:
        """``[n]``: the token that the right answer begins with."""
        return np.array([self.first[answer] for answer in self.answers])


def questions(name: str, n: int, *, seed: int = 0) -> Kind:
    """At most `n` questions of a kind, drawn at random."""
    pairs = _sums() if name == "sums" else _facts(name)
    tokenizer = demo_model().tokenizer
    if tokenizer is None:
        raise RuntimeError("the demo model has a tokenizer")
    space = "" if name == "sums" else " "  # this tokenizer writes a space before a digit as a token of its own
    begins = {answer: tokenizer(space + answer, add_special_tokens=False)["input_ids"][0] for answer in sorted({one for _, one in pairs})}
    tokens = list(begins.values())
    first = {answer: token for answer, token in begins.items() if tokens.count(token) == 1}
    kept = [(subject, answer) for subject, answer in pairs if answer in first]
    drawn = random.Random(seed).sample(kept, min(n, len(kept)))
    return Kind(name=name, subjects=tuple(one for one, _ in drawn), answers=tuple(answer for _, answer in drawn), first=first)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """Questions of one kind as the demo model reads them, and what it would answer."""

    kind: Kind
    activations: Mapping[str, torch.Tensor]
    right: np.ndarray
    greedy: np.ndarray  # whether the likeliest of all tokens is the right one
    n_tokens: np.ndarray
    entropy: np.ndarray
    top_probability: np.ndarray


@functools.cache
def asked(name: str, n: int) -> Asked:
    """Ask once for all claims; what is read is the last token of the question's prompt."""
    kind, model = questions(name, n), demo_model()
    candidates = sorted(kind.first.values())
    # This model first says a sum again, so its answer is what comes after that; the activations are those of the question all the same.
    echoed = [f"{prompt} {subject} = " for prompt, subject in zip(kind.prompts, kind.subjects, strict=True)]
    prompts = echoed if name == "sums" else kind.prompts
    said = next_token(model, prompts, candidates=candidates)
    answers = np.array(candidates)[said.log_probabilities.argmax(axis=1)]
    acts = transect.capture(model, kind.prompts, sites=QUESTION_SITES)
    return Asked(
        kind=kind,
        activations={site: acts[site] for site in QUESTION_SITES},
        right=answers == kind.gold,
        greedy=said.top_token == kind.gold,
        n_tokens=acts.rows["n_tokens"].to_numpy(),
        entropy=said.entropy,
        top_probability=said.top_probability,
    )


ROUNDS = 4
EPISODE_KINDS = ("cities", "books", "elements")
EPISODE_SITE = "layers[9]"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Episodes:
    """A question, then three worked examples of its kind one after another, then the question again and the answer.

    Args:
        index: ``[n]``, of the question among those that `asked` asks with `EPISODE_SIZE`.
        kinds: ``[n]``.
        groups: ``[n]``.
        rounds: ``[n, 4, d]``, activations at the end of the question and of each example.
        costs: ``[n, 5]``, tokens of each round, the last one with the answer.
        success: ``[n]``, whether the likeliest next token is the one that the right answer begins with.
    """

    index: np.ndarray
    kinds: np.ndarray
    groups: np.ndarray
    rounds: np.ndarray
    costs: np.ndarray
    success: np.ndarray


EPISODE_SIZE = 66


@functools.cache
def episodes() -> Episodes:
    """Run the episodes of three kinds of question, once for all claims."""
    index, kinds, groups, gold, prompts = [], [], [], [], []
    for name in EPISODE_KINDS:
        kind = questions(name, EPISODE_SIZE)
        shown = list(zip(kind.texts, kind.answers, strict=True))[-(ROUNDS - 1) :]
        examples = "\n".join(f"Question: {text} Answer: {answer}" for text, answer in shown)
        kept = [row for row, answer in enumerate(kind.answers) if answer not in {one for _, one in shown}]
        index += kept
        kinds += [name] * len(kept)
        groups += kind.groups[kept].tolist()
        gold += kind.gold[kept].tolist()
        prompts += [f"Question: {kind.texts[row]}\n{examples}\nQuestion: {kind.texts[row]} Answer:" for row in kept]
    model = demo_model()
    said = next_token(model, prompts)
    acts = transect.capture(model, prompts, sites=EPISODE_SITE, tokens="all")
    rows, ids = acts.rows["row"].to_numpy(), acts.rows["token_id"].to_numpy()
    ends = [np.flatnonzero((rows == row) & (ids == _line_end())) for row in range(len(prompts))]
    if any(len(one) != ROUNDS for one in ends):
        raise RuntimeError("the tokenizer does not end each line with a token of its own")
    at = np.stack(ends)
    lengths = np.bincount(rows)
    begins = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    upto = np.concatenate([at - begins[:, None] + 1, (lengths + 1)[:, None]], axis=1)
    return Episodes(
        index=np.array(index),
        kinds=np.array(kinds),
        groups=np.array(groups),
        rounds=acts[EPISODE_SITE].double().numpy()[at],
        costs=np.diff(upto, axis=1, prepend=0).astype(np.float64),
        success=said.top_token == np.array(gold),
    )


def _line_end() -> int:
    tokenizer = demo_model().tokenizer
    if tokenizer is None:
        raise RuntimeError("the demo model has a tokenizer")
    return tokenizer("\n", add_special_tokens=False)["input_ids"][0]


def _facts(name: str) -> list[tuple[str, str]]:
    file, subject, answer = _COLUMNS[name]
    rows = [*facts(file), *facts(f"{file}_more")]
    if name == "animals":
        return [(row[subject][0].lower() + row[subject][1:], row[answer].split(" ", 1)[1]) for row in rows]
    return [(row[subject], row[answer].removeprefix("the ")) for row in rows]


def _sums() -> list[tuple[str, str]]:
    """Sums and differences of two numbers with one digit, whose result has one digit."""
    plus = [(f"{a} plus {b}", str(a + b)) for a in range(1, 9) for b in range(1, 10 - a)]
    return plus + [(f"{a} minus {b}", str(a - b)) for a in range(1, 10) for b in range(1, a + 1)]
