"""Whether a text was trained on, read from activations, beside the loss and what needs no model."""

import random

import numpy as np
import torch

import transect
from claims import Claim, Result
from transect.capture import token_losses
from transect.decide import audit_membership
from transect.models import Model
from transect.testing.tiny import tiny_tokenizer

CLAIM = Claim(
    paper="LUMIA: linear probing for unimodal and multimodal membership inference attacks (2024)",
    says="Linear probes on activations detect members of the training data better than previous methods that read the model's output.",
    setting="a GPT-2 of four blocks and width 64, trained here from random weights on 150 of 300 sentences that a rule makes at random, so "
    "that members and others differ by nothing but training; mean over tokens, layer chosen on other texts than measured; beside the "
    "loss, Min-K% and zlib",
    reproduced_when="the held-out AUROC of choosing a layer is above 0.6 and above that of the best of loss, Min-K% and zlib",
)
MEMBERS, OTHERS, STEPS, BATCH = 150, 150, 240, 25
_NAMES = (
    "Ada",
    "Boris",
    "Clara",
    "Dmitri",
    "Elena",
    "Farid",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Karin",
    "Luis",
    "Mara",
    "Nils",
    "Olga",
    "Pavel",
    "Rosa",
    "Sven",
    "Tara",
    "Viktor",
)
_GOODS = ("lamps", "chairs", "ropes", "candles", "barrels", "boots", "kettles", "mirrors", "saddles", "spades", "carpets", "clocks")
_TOWNS = ("Lund", "Porto", "Cork", "Gdansk", "Turin", "Varna", "Bergen", "Ghent", "Split", "Riga", "Bilbao", "Tartu")


def run() -> Result:
    """Train, then audit."""
    draw = random.Random(0)
    texts = _sentences(draw, MEMBERS + OTHERS)
    members = np.arange(len(texts)) < MEMBERS  # the sentences are drawn alike, so the first half is as good as any
    model = _trained(texts[:MEMBERS])
    acts = transect.capture(model, texts, sites="layers[*]", tokens="mean")
    losses = token_losses(model, texts)
    found = audit_membership(
        {site: acts[site] for site in acts.sites},
        members,
        texts=texts,
        loss=losses.mean,
        min_k=losses.min_k(),
        zlib_ratio=losses.zlib_ratio,
        fpr=0.05,
    )
    attacks = {one.name: one for one in (*found.baselines, *found.blind)}
    numbers = {"probe, layer held out": found.corrected.value, "probe, found at 5% false positives": found.probe.tpr.value}
    numbers |= {name: one.auroc.value for name, one in attacks.items()}
    numbers |= {f"{name}, found at 5% false positives": one.tpr.value for name, one in attacks.items()}
    numbers |= {"mean loss, members": float(losses.mean[members].mean()), "mean loss, others": float(losses.mean[~members].mean())}
    best = max(found.baselines, key=lambda one: one.auroc.value)
    held = found.corrected.value > max(0.6, best.auroc.value)
    sentence = (
        f"Choosing a layer on other texts, a probe tells members with AUROC {found.corrected}; the best score of the output, {best.name}, "
        f"does with {best.auroc} and needs no labels; words alone reach {found.blind[0].auroc}."
    )
    return Result(numbers=numbers, reproduced=held, sentence=sentence)


def _sentences(draw: random.Random, n: int) -> list[str]:
    """Different sentences of one form."""
    found: dict[str, None] = {}
    while len(found) < n:
        buyer, seller = draw.sample(_NAMES, 2)
        count, price = draw.randint(12, 99), draw.randint(101, 999)
        found[f"{buyer} of {draw.choice(_TOWNS)} bought {count} {draw.choice(_GOODS)} from {seller} for {price}."] = None
    return list(found)


def _trained(texts: list[str]) -> Model:
    """A small GPT-2 that has seen each text many times; the global random state is left alone."""
    import transformers

    tokenizer = tiny_tokenizer()
    rows = [tokenizer(text)["input_ids"] for text in texts]
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=64,
        n_layer=4,
        n_head=4,
        n_positions=128,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = transformers.GPT2LMHeadModel(config)
        optimizer = torch.optim.AdamW(module.parameters(), lr=3e-3, weight_decay=0.0)
        for _ in range(STEPS):
            at = torch.randperm(len(rows))[:BATCH]
            logits = module(input_ids=ids[at], attention_mask=mask[at]).logits[:, :-1]
            targets = ids[at].masked_fill(mask[at] == 0, -100)[:, 1:]
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100).backward()
            optimizer.step()
    return transect.load(module.eval(), tokenizer=tokenizer, name="trained here")
