import dataclasses
import importlib
import zlib
from typing import Any

import numpy as np
import pytest
import torch

from transect.capture import next_token, token_losses
from transect.capture.naive import naive_logits, naive_token_losses
from transect.errors import InputError, ModelError, TokenRuleError
from transect.models import load
from transect.testing.tiny import tiny, tiny_chat_tokenizer

# By import_module, because the package has a function of the name `capture`, which hides the room from a dotted string.
head = importlib.import_module("transect.capture.head")
outputs = importlib.import_module("transect.capture.outputs")

HEADED = ("llama", "gpt2", "gemma3", "qwen3", "mamba", "rwkv")


@pytest.fixture(scope="module")
def llama():
    return tiny("llama")


def _softcapped():
    """A tiny Gemma 3 whose head caps its logits at 0.2, low enough to change them all."""
    model = tiny("gemma3")
    config: Any = model.module.config
    config.final_logit_softcapping = 0.2
    return model


@pytest.mark.parametrize("family", HEADED)
def test_next_token_says_what_one_text_at_a_time_with_all_logits_says(family, texts):
    model = tiny(family)
    said = next_token(model, texts, candidates=["i", 9], logits=True, batch_tokens=40)
    logs = torch.stack([torch.log_softmax(logits[-1], dim=-1) for logits in naive_logits(model, texts)])
    np.testing.assert_allclose(said.entropy, -(logs.exp() * logs).sum(dim=-1), atol=1e-5, rtol=0)
    np.testing.assert_allclose(said.top_probability, logs.exp().amax(dim=-1), atol=1e-5, rtol=0)
    assert said.top_token.tolist() == logs.argmax(dim=-1).tolist()
    np.testing.assert_allclose(said.log_probabilities, logs[:, list(said.candidates)], atol=1e-5, rtol=0)
    assert said.logits is not None
    np.testing.assert_allclose(torch.log_softmax(torch.from_numpy(said.logits), dim=-1), logs, atol=1e-5, rtol=0)
    assert len(said) == len(texts)


@pytest.mark.parametrize("family", HEADED)
def test_token_losses_are_those_of_one_text_at_a_time(family, texts):
    model = tiny(family)
    losses = token_losses(model, texts, batch_tokens=40)
    expected = naive_token_losses(model, texts)
    assert losses.lengths.tolist() == [len(row) for row in expected]
    np.testing.assert_allclose(losses.values, torch.cat(expected), atol=1e-5, rtol=0)
    np.testing.assert_allclose(losses.mean, [float(row.mean()) for row in expected], atol=1e-5, rtol=0)
    np.testing.assert_allclose(losses.of(2), expected[2], atol=1e-5, rtol=0)


def test_soft_capping_of_the_final_logits_is_respected(texts):
    model = _softcapped()
    said = next_token(model, texts, logits=True)
    assert said.logits is not None
    assert np.abs(said.logits).max() <= 0.2
    plain = next_token(tiny("gemma3"), texts, logits=True)
    assert plain.logits is not None
    np.testing.assert_allclose(said.logits, 0.2 * np.tanh(plain.logits / 0.2), atol=1e-5, rtol=0)


def test_the_head_in_small_chunks_says_the_same(llama, texts, monkeypatch):
    whole = token_losses(llama, texts)
    monkeypatch.setattr(head, "_HEAD_BYTES", 3 * 4 * 384)
    np.testing.assert_allclose(token_losses(llama, texts).values, whole.values, atol=1e-6, rtol=0)


def test_another_token_can_be_asked_about(llama, texts):
    said = next_token(llama, texts, tokens="first")
    expected = [float(torch.softmax(logits[0], dim=-1).max()) for logits in naive_logits(llama, texts)]
    np.testing.assert_allclose(said.top_probability, expected, atol=1e-5, rtol=0)


def test_a_chat_ends_in_the_opening_of_the_answer(texts):
    model = dataclasses.replace(tiny("llama"), tokenizer=tiny_chat_tokenizer())
    said = next_token(model, texts, chat=True)
    logits = torch.stack([row[-1] for row in naive_logits(model, texts, chat=True)])
    np.testing.assert_allclose(said.top_probability, torch.softmax(logits, dim=-1).amax(dim=-1), atol=1e-5, rtol=0)


def test_nothing_of_the_model_is_changed(llama, texts):
    before = {name: set(vars(module)) for name, module in llama.module.named_modules()}
    state = torch.random.get_rng_state()
    llama.module.train()
    token_losses(llama, texts)
    assert llama.module.training
    llama.module.eval()
    assert {name: set(vars(module)) for name, module in llama.module.named_modules()} == before
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in llama.module.modules())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_min_k_and_the_zlib_ratio_follow_their_definitions(llama, texts):
    losses = token_losses(llama, texts)
    for row, text in enumerate(texts):
        values = losses.of(row)
        n_kept = max(1, int(0.4 * len(values)))
        assert losses.min_k(40)[row] == pytest.approx(-np.sort(values)[::-1][:n_kept].mean())
        assert losses.zlib_ratio[row] == pytest.approx(values.sum() / len(zlib.compress(text.encode())))
    with pytest.raises(InputError, match="in percent"):
        losses.min_k(0)


@pytest.mark.parametrize("family", ["bert", "gru", "vit"])
def test_models_that_say_nothing_are_refused(family):
    with pytest.raises(ModelError, match="no language-model head"):
        next_token(tiny(family), ["Yes"])


def test_a_backbone_without_its_head_is_refused(llama):
    backbone = load(llama.module.model, tokenizer=llama.tokenizer, name="backbone")
    with pytest.raises(ModelError, match="not its backbone"):
        token_losses(backbone, ["Yes"])


def test_a_head_that_does_more_than_read_the_last_hidden_state_is_noticed(llama):
    handle = llama.module.model.register_forward_hook(lambda _m, _a, output: output.__setitem__("last_hidden_state", 2 * output[0] + 1))
    try:
        with pytest.raises(ModelError, match="does not give the model's own logits"):
            next_token(llama, ["The city of Paris"])
    finally:
        handle.remove()


@pytest.mark.parametrize("rule", ["mean", "all", "max"])
def test_rules_that_read_several_tokens_are_refused(llama, rule):
    with pytest.raises(TokenRuleError, match="one token"):
        next_token(llama, ["Yes"], tokens=rule)


def test_candidates_must_be_single_tokens(llama):
    with pytest.raises(InputError, match="expected one"):
        next_token(llama, ["Yes"], candidates=["Zanzibar"])
    with pytest.raises(InputError, match="no token id"):
        next_token(llama, ["Yes"], candidates=[384])
    with pytest.raises(InputError, match="one string"):
        next_token(llama, ["Yes"], candidates="Yes")


def test_too_many_logits_are_refused(llama, monkeypatch):
    monkeypatch.setattr(outputs, "_KEPT_BYTES", 1000)
    with pytest.raises(InputError, match="fewer texts"):
        next_token(llama, ["Yes"], logits=True)


def test_a_text_of_one_token_has_no_loss():
    model = tiny("llama")
    tokenizer = model.tokenizer
    assert tokenizer is not None
    ids = tokenizer("i", add_special_tokens=False)["input_ids"]
    assert len(ids) == 1
    from tokenizers import processors

    tokenizer.backend_tokenizer.post_processor = processors.ByteLevel()
    with pytest.raises(InputError, match="row 1"):
        token_losses(model, ["The city", "i"])


def test_nan_names_its_row():
    model = tiny("llama")
    ids = model.tokenizer("Lima", add_special_tokens=False)["input_ids"] if model.tokenizer else []
    with torch.no_grad():
        model.module.get_parameter("model.embed_tokens.weight")[ids[0]] = torch.nan
    with pytest.raises(ModelError, match="row 1"):
        next_token(model, ["Yes it is", "Lima", "Yes"])
