"""How much recall softmax layers bring to a linear-time stack."""

import torch
from torch.nn import functional

from claims import Claim, Result
from transect.mixers.models import StackConfig, build
from transect.mixers.tasks import Recall
from transect.study.compare_mixers.train import measure

CLAIM = Claim(
    paper="Wang et al. 2025, A Systematic Analysis of Hybrid Linear Attention",
    says="Recall improves with more full attention, particularly below three linear layers to one; language modelling hardly changes.",
    setting="four blocks of width 32, Gated DeltaNet and softmax attention in ratios 4:0, 3:1, 1:1 and 0:4, 8 pairs in 48 tokens of a vocabulary of 64, "
    "800 steps of 32 sequences, one seed; recall only",
    reproduced_when="3:1 is above 4:0 and 1:1 is not below 3:1, at 8 pairs",
)
STACKS = {
    "4:0": ["gdn"] * 4,
    "3:1": ["gdn", "gdn", "gdn", "attention"],
    "1:1": ["gdn", "attention", "gdn", "attention"],
    "0:4": ["attention"] * 4,
}


def run() -> Result:
    """Train and test."""
    task, numbers = Recall(vocab=64, pairs=8, length=48), {}
    for ratio, layers in STACKS.items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            config = StackConfig(
                layers=layers,
                vocab_size=64,
                hidden_size=32,
                num_heads=2,
                feed_forward=None,
                tie_word_embeddings=False,
                initializer_range=32**-0.5,
            )
            model = build(config)
        optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.1)
        draw = torch.Generator().manual_seed(1)
        for _ in range(800):
            batch = task.batch(draw, 32)
            logits = model(batch.ids, use_cache=False).logits
            functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten()).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        numbers[ratio] = measure(model, task, test=8, size=256, seed=11)[0]
    return Result(
        numbers=numbers,
        reproduced=numbers["3:1"] > numbers["4:0"] and numbers["1:1"] >= numbers["3:1"],
        sentence="At 8 pairs (chance 0.12), linear layers to softmax layers: "
        + ", ".join(f"{name} {value:.2f}" for name, value in numbers.items())
        + ".",
    )
