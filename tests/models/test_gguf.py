"""GGUF files: read when whole, refused with the reason when not."""

import contextlib
import json
import os
import sys

import numpy
import pytest
import torch

from transect.errors import MissingExtraError, ModelError, StoreError
from transect.models import load
from transect.models.cache import atomic_folder, cache_folder
from transect.models.gguf_file import _without_vocabulary, read_header
from transect.testing.tiny import tiny

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}


def write_llama(path, model):
    """The tiny Llama as llama.cpp's converter writes one."""
    import gguf

    config = model.module.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    bpe = json.loads(model.tokenizer.backend_tokenizer.to_str())["model"]
    tokens = sorted(bpe["vocab"], key=bpe["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens + [f"[PAD{index}]" for index in range(config.vocab_size - len(tokens))])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in bpe["merges"]])
    writer.add_token_types([3 if index < 5 else 1 for index in range(config.vocab_size)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    for name, value in model.module.state_dict().items():
        inner = name.removesuffix(".weight")
        block = ""
        if inner.startswith("model.layers."):
            _, _, index, inner = inner.split(".", 3)
            block = f"blk.{index}."
        heads = {"self_attn.q_proj": config.num_attention_heads, "self_attn.k_proj": config.num_key_value_heads}.get(inner)
        # llama.cpp pairs neighbouring dimensions in its rotary embedding, Hugging Face the two halves.
        weight = value.reshape(heads, 2, -1, value.shape[1]).swapaxes(1, 2).reshape(value.shape) if heads else value
        writer.add_tensor(f"{block}{NAMES[inner]}.weight", numpy.ascontiguousarray(weight.numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_llama(tmp_path_factory.mktemp("gguf") / "tiny.gguf", tiny("llama"))


def test_a_gguf_file_gives_the_same_model(whole):
    model, loaded = tiny("llama"), load(whole)
    ids = torch.tensor([[1, 9, 40, 77, 12]])
    with torch.no_grad():
        difference = (loaded.module(ids).logits - model.module(ids).logits).abs().max().item()
    assert difference < 1e-6
    assert (loaded.name, loaded.takes, loaded.max_length) == ("tiny", "tokens", 64)
    text = "The city of Lima is not in Peru."
    assert loaded.tokenizer(text)["input_ids"] == model.tokenizer(text)["input_ids"]
    assert load(whole).fingerprint == loaded.fingerprint
    assert load(whole, dtype="bfloat16").dtype == torch.bfloat16


def test_saved_as_a_folder_it_is_the_same_model(whole, tmp_path):
    loaded = load(whole)
    loaded.module.save_pretrained(tmp_path)
    loaded.tokenizer.save_pretrained(tmp_path)
    assert load(tmp_path).fingerprint == loaded.fingerprint


def test_the_copy_without_vocabulary_holds_everything_else(whole, tmp_path):
    import gguf

    header = read_header(whole)
    assert (header.architecture, header.n_vocabulary, header.states_vocabulary) == ("llama", 384, False)
    copy = _without_vocabulary(whole, header, tmp_path)
    slim = read_header(copy)
    assert slim.states_vocabulary
    assert slim.n_vocabulary == 0
    old, new = gguf.GGUFReader(whole), gguf.GGUFReader(copy)
    assert new.fields["llama.vocab_size"].contents() == 384
    assert new.fields["tokenizer.ggml.bos_token_id"].contents() == 1
    assert set(old.fields) - set(new.fields) == {f"tokenizer.ggml.{name}" for name in ("tokens", "token_type", "merges")}
    for one, other in zip(old.tensors, new.tensors, strict=True):
        assert one.name == other.name
        assert numpy.array_equal(one.data, other.data)


def test_a_large_vocabulary_takes_the_copy_and_gives_the_same_model(whole, monkeypatch):
    plain = load(whole)
    monkeypatch.setattr("transect.models.gguf_file._LARGE_VOCABULARY", 10)
    assert load(whole).fingerprint == plain.fingerprint
    assert [path.name for path in whole.parent.iterdir()] == [whole.name]


@pytest.mark.parametrize("kept", [0, 3, 10, 23, 24, 40, 300, 3000, 0.5, 0.999])
def test_a_truncated_file_is_refused(whole, kept, tmp_path):
    data = whole.read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(data[: kept if isinstance(kept, int) else int(kept * len(data))])
    with pytest.raises(ModelError, match=r"truncated|is no GGUF file") as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "Download it again" in str(caught.value)


def test_other_bytes_are_refused(whole, tmp_path):
    data = bytearray(whole.read_bytes())
    changes = {"magic": (0, b"PK\3\4"), "version": (4, b"\x09\0\0\0"), "counts": (8, b"\xff" * 8), "key": (24, b"\xff" * 8)}
    for name, change in changes.items():
        broken = bytearray(data)
        broken[change[0] : change[0] + len(change[1])] = change[1]
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(broken)
        with pytest.raises(ModelError, match=r"damaged|is no GGUF file"):
            load(path)


def test_a_flipped_byte_anywhere_in_the_header_never_gives_anything_but_a_model_error(whole):
    data = whole.read_bytes()
    header = read_header(whole)
    random = numpy.random.default_rng(0)
    path = whole.parent / "flipped.gguf"
    try:
        for place in random.integers(0, header.data_start, 200):
            broken = bytearray(data)
            broken[place] ^= 1 << int(random.integers(8))
            path.write_bytes(broken)
            with contextlib.suppress(ModelError):  # a flip that only changes a number or a name is not noticed here
                read_header(path)
    finally:
        path.unlink()


def test_an_architecture_that_transformers_does_not_know(tmp_path):
    import gguf

    path = tmp_path / "odd.gguf"
    writer = gguf.GGUFWriter(path, "no-such-kind")
    writer.add_tensor("w", numpy.zeros((2, 2), dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelError, match=r"architecture 'no-such-kind'.*safetensors folder"):
        load(path)


def test_without_the_package_the_extra_is_named(whole, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.setitem(sys.modules, "gguf.constants", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'transect\[gguf\]'"):
        load(whole)


def test_the_cache_folder_can_be_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSECT_CACHE", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    monkeypatch.delenv("TRANSECT_CACHE")
    assert cache_folder().name == "transect"


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "made"

    def fail_in_the_middle():
        with atomic_folder(target) as folder:
            (folder / "half").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_in_the_middle()
    assert list(tmp_path.iterdir()) == []
    with atomic_folder(target) as folder:
        (folder / "whole").write_text("x")
        assert not target.exists()
    assert [path.name for path in target.iterdir()] == ["whole"]
    assert list(tmp_path.iterdir()) == [target]


def test_two_processes_at_once_leave_the_first_one_s_folder(tmp_path):
    target = tmp_path / "made"
    with atomic_folder(target) as slow:
        (slow / "slow").write_text("x")
        with atomic_folder(target) as fast:
            (fast / "fast").write_text("x")
    assert [path.name for path in target.iterdir()] == ["fast"]
    assert list(tmp_path.iterdir()) == [target]


def test_what_a_killed_process_left_is_cleared_away(tmp_path):
    left = tmp_path / ".made.0123abcd.tmp"
    left.mkdir()
    os.utime(left, (0, 0))
    with atomic_folder(tmp_path / "made"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_a_folder_that_cannot_be_written_says_what_to_do(tmp_path):
    (tmp_path / "file").write_text("in the way")

    def make():
        with atomic_folder(tmp_path / "file" / "made"):
            pass

    with pytest.raises(StoreError, match="TRANSECT_CACHE"):
        make()
