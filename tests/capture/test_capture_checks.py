"""The check must refuse what it is there to refuse: one broken capture per clause."""

import dataclasses

import pytest
import torch

from transect.capture import capture
from transect.models import load
from transect.testing.capture_checks import check_capture
from transect.testing.tiny import tiny, tiny_tokenizer


def altered(acts, change):
    return dataclasses.replace(acts, tensors={site: change(site, acts[site]) for site in acts.sites})


def keeps_batch_order(model, data, **settings):
    """Rows in the order in which they ran, longest first."""
    acts = capture(model, data, **settings)
    if acts.tokens == "all":
        return acts
    order = torch.tensor(acts.rows["n_tokens"].to_pylist()).argsort(descending=True, stable=True)
    return altered(acts, lambda _, tensor: tensor[order])


def reads_one_token_early(model, data, **settings):
    """An off-by-one in the last position."""
    return capture(model, data, **{**settings, "tokens": -2} if settings.get("tokens", "last") == "last" else settings)


def pads_as_the_tokenizer_says(model, data, **settings):
    """The pad token's activation for short rows when the tokenizer pads on the right."""
    acts = capture(model, data, **settings)
    if model.tokenizer.padding_side == "left":
        return acts
    return altered(acts, lambda _, tensor: tensor + 1e-6)


def normed_last_block(model, data, **settings):
    """What `hidden_states[-1]` is: the last block's site holds the normed state."""
    acts = capture(model, data, **settings)
    last = f"layers[{len(model.structure.blocks) - 1}]"
    return altered(acts, lambda site, tensor: acts["final_norm"] if site == last and "final_norm" in acts.sites else tensor)


def leaves_a_hook(model, data, **settings):
    acts = capture(model, data, **settings)
    model.module.register_forward_hook(lambda *_: None)
    return acts


def leaves_a_hook_after_ctrl_c(model, data, **settings):
    handle = model.module.register_forward_hook(lambda *_: None)
    acts = capture(model, data, **settings)
    handle.remove()
    return acts


def clears_all_hooks(model, data, **settings):
    acts = capture(model, data, **settings)
    for module in model.module.modules():
        module._forward_hooks.clear()
    return acts


def switches_to_evaluation(model, data, **settings):
    model.module.eval()
    return capture(model, data, **settings)


def moves_the_random_state(model, data, **settings):
    torch.rand(1)
    return capture(model, data, **settings)


def rounds_the_weights(model, data, **settings):
    with torch.no_grad():
        next(model.module.parameters()).add_(1e-9).mul_(1 + 1e-6)
    return capture(model, data, **settings)


def stores_in_half_precision(model, data, **settings):
    return capture(model, data, **settings, dtype="bfloat16" if "store" in settings else None)


def starts_a_store_with_noise(model, data, **settings):
    """Goes on with numbers other than an uninterrupted capture's."""
    resumed = "store" in settings and settings["store"].exists()
    acts = capture(model, data, **settings)
    return altered(acts, lambda _, tensor: tensor * (1 + 1e-7)) if resumed else acts


def swallows_ctrl_c(model, data, **settings):
    try:
        return capture(model, data, **settings)
    except KeyboardInterrupt:
        return capture(model, data, sites=settings["sites"])


BROKEN = {
    keeps_batch_order: "token rule 'last', batched against one at a time",
    reads_one_token_early: "token rule 'last', batched against one at a time",
    pads_as_the_tokenizer_says: "padding_side left against right",
    normed_last_block: r"layers\[2\] differs",
    leaves_a_hook: "a capture left a trace: .top.._forward_hooks",
    leaves_a_hook_after_ctrl_c: "an interrupted capture left a trace: .top.._forward_hooks",
    clears_all_hooks: "another hook at embed .* was lost",
    switches_to_evaluation: "training mode left a trace",
    moves_the_random_state: "the random state",
    rounds_the_weights: "left a trace: tensor ",
    stores_in_half_precision: "a store against memory",
    starts_a_store_with_noise: "an interrupted store that went on against memory",
    swallows_ctrl_c: "Ctrl-C did not come through",
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_capture_is_refused(broken, texts):
    with pytest.raises(AssertionError, match=BROKEN[broken]):
        check_capture(tiny("llama"), texts[:6], capture=broken, sites=["embed", "layers[2]", "final_norm"], batch_tokens=8)


def test_a_model_whose_rows_depend_on_their_neighbours_is_refused(texts):
    model = tiny("llama")
    model.module.model.layers[1].register_forward_hook(lambda _module, _args, output: output + output.mean(dim=0, keepdim=True))
    with pytest.raises(AssertionError, match="batched against one at a time"):
        check_capture(model, texts[:6])


class Encoder(torch.nn.Module):
    """Looks both ways."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(384, 8)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))

    def forward(self, ids):
        hidden = self.embedding(ids)
        for layer in self.layers:
            hidden = layer(hidden + hidden.mean(dim=1, keepdim=True))
        return hidden


def test_a_model_that_takes_no_mask_is_given_no_padding(texts):
    check_capture(load(Encoder().eval(), tokenizer=tiny_tokenizer(), name="encoder"), [*texts[:5], texts[3]], batch_tokens=64)


def test_a_model_that_ignores_its_mask_is_refused(texts):
    class Deaf(Encoder):
        def forward(self, input_ids, attention_mask=None):
            del attention_mask
            return super().forward(input_ids)

    model = load(Deaf().eval(), tokenizer=tiny_tokenizer(), name="deaf")
    with pytest.raises(AssertionError, match="batched against one at a time"):
        check_capture(model, texts[:6], batch_tokens=64)
