"""The logits of the first token of an answer tell whether the question can be answered, and those of later tokens do less."""

import numpy as np

import transect
from claims import Claim, Result
from claims._shared import demo_model
from transect.capture import next_token
from transect.capture.generated import capture_generated
from transect.decide import compare_tokens
from transect.measure import auroc, fit_length

CLAIM = Claim(
    paper="Zhao et al. 2024, The First to Know: How Token Distributions Reveal Hidden Knowledge in Large Vision-Language Models?",
    says="Logits of the first token hold whether to answer an instruction, and those of subsequent tokens gradually lose it.",
    setting="Gemma 3 270M, a text model in place of a vision-language model; questions about 80 known and 80 fabricated entities, the latter "
    "unanswerable; the 1024 tokens that are likeliest at the start, chosen without labels; greedy answers, read before their 1st, "
    "2nd and 8th token; folds of whole groups",
    reproduced_when="AUROC at the first token is above 0.8, and that at the eighth is lower with an interval of the drop above 0",
)
POSITIONS = (0, 1, 7)
KEPT = 1024


def run() -> Result:
    """Let the model answer, and fit the same probe on its logits at three positions."""
    model, table = demo_model(), transect.read_table("familiarity")
    labels, names = np.asarray(table.labels), np.asarray(table.groups)
    even = [row for row, label in enumerate(labels) if label != "obscure" and int(str(names[row]).split()[1]) % 2 == 0]
    prompts = [f"Question: {table.texts[row]}\nAnswer:" for row in even]
    known = np.array([labels[row] == "known" for row in even])
    groups = np.array([names[row] for row in even])
    first = next_token(model, prompts, logits=True)
    tokenizer = model.tokenizer
    if first.logits is None or tokenizer is None:
        raise RuntimeError("the demo model has a tokenizer, and its logits were asked for")
    shifted = np.exp(first.logits - first.logits.max(axis=1, keepdims=True))
    mean = (shifted / shifted.sum(axis=1, keepdims=True)).mean(axis=0)
    likely = sorted(np.argsort(-mean)[:KEPT].tolist())
    written = capture_generated(model, prompts, sites="layers[0]", tokens="prompt[-1]", max_new_tokens=max(POSITIONS)).token_ids
    logits = [first.logits[:, likely]]
    for position in POSITIONS[1:]:
        texts = [prompt + tokenizer.decode(ids[:position]) for prompt, ids in zip(prompts, written, strict=True)]
        logits.append(next_token(model, texts, candidates=likely).log_probabilities)
    found = compare_tokens(logits, known, groups=groups)
    if found.drop is None:
        raise RuntimeError("three positions were given, so there is a drop")
    entropy = auroc(-first.entropy, known)
    numbers = {f"AUROC before token {at + 1}": one.value for at, one in zip(POSITIONS, found.positions, strict=True)}
    numbers |= {"drop": found.drop.value, "drop, low": found.drop.low, "drop, high": found.drop.high, "first-token entropy": entropy}
    numbers["length of the question, on its own rows"] = auroc(fit_length(prompts, known.astype(np.int64)).scores(prompts), known)
    held = found.positions[0].value > 0.8 and found.drop.low > 0
    sentence = (
        f"A probe of the logits tells known from fabricated entities with AUROC {found.positions[0]} before the first token and "
        f"{found.positions[-1]} before the eighth, a drop of {found.drop}."
    )
    return Result(numbers=numbers, reproduced=held, sentence=sentence)
