"""Loading: every door, and what is refused at each."""

import json
import sys

import pytest
import torch
from torch import nn

from transect.errors import InputError, ModelError
from transect.models import load
from transect.testing.tiny import tiny, tiny_chat_tokenizer

TEXT_FAMILIES = ("llama", "gpt2", "gemma3", "mamba", "bert")


def save(model, folder):
    model.module.save_pretrained(folder)
    if model.tokenizer is not None:
        model.tokenizer.save_pretrained(folder)
    return folder


def logits(model):
    ids = torch.tensor([[1, 9, 40, 77, 12]])
    with torch.no_grad():
        output = model.module(input_ids=ids)
    return output[0]


@pytest.mark.parametrize("family", TEXT_FAMILIES)
def test_a_saved_folder_loads_back_the_same(family, tmp_path):
    model = tiny(family)
    loaded = load(save(model, tmp_path / "it"))
    assert type(loaded.module) is type(model.module)
    assert not loaded.module.training
    assert torch.equal(logits(loaded), logits(model))
    assert loaded.fingerprint == model.fingerprint == load(str(tmp_path / "it")).fingerprint
    assert (loaded.name, loaded.takes, loaded.max_length, loaded.width) == ("it", "tokens", model.max_length, 16)
    assert loaded.tokenizer("The city")["input_ids"] == model.tokenizer("The city")["input_ids"]


def test_a_vision_model_loads_without_a_tokenizer(tmp_path):
    model = tiny("vit")
    loaded = load(save(model, tmp_path))
    assert (loaded.takes, loaded.tokenizer) == ("tensor", None)
    assert loaded.fingerprint == model.fingerprint


def test_dtype_is_kept_or_as_asked(tmp_path):
    model = tiny("llama")
    save(load(model.module.to(torch.bfloat16), tokenizer=model.tokenizer), tmp_path)
    assert load(tmp_path).dtype == torch.bfloat16
    assert load(tmp_path, dtype="float32").dtype == load(tmp_path, dtype=torch.float32).dtype == torch.float32
    with pytest.raises(InputError, match="unknown dtype 'flaot32': did you mean 'float32'"):
        load(tmp_path, dtype="flaot32")


def test_a_model_with_a_head_generates(tmp_path):
    loaded = load(save(tiny("llama"), tmp_path))
    assert loaded.module.generate(torch.tensor([[1, 5]]), max_new_tokens=2, do_sample=False).shape == (1, 4)
    assert loaded.backbone is loaded.module.model


def test_a_given_tokenizer_replaces_the_folder_s(tmp_path):
    chat = tiny_chat_tokenizer()
    assert load(save(tiny("llama"), tmp_path), tokenizer=chat).tokenizer is chat


def test_a_live_module_is_left_exactly_as_it_is():
    model = tiny("llama")
    module = model.module.train()
    before = {name: (value.clone(), value.data_ptr()) for name, value in module.state_dict().items()}
    loaded = load(module, tokenizer=model.tokenizer)
    _ = loaded.fingerprint, loaded.sites()
    assert loaded.module is module
    assert module.training
    assert all(torch.equal(value, before[name][0]) and value.data_ptr() == before[name][1] for name, value in module.state_dict().items())
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert not any(child._forward_hooks or child._forward_pre_hooks for child in module.modules())
    assert loaded.name == "LlamaForCausalLM"


def test_a_live_module_is_the_caller_s_to_move():
    model = tiny("llama")
    assert load(model.module, tokenizer=model.tokenizer, device="cpu", dtype="float32").device.type == "cpu"
    with pytest.raises(InputError, match=r"dtype=torch.bfloat16 was asked for; cast it yourself"):
        load(model.module, dtype="bfloat16")
    with pytest.raises(InputError, match=r"device='meta' was asked for; move it yourself"):
        load(model.module, device="meta")
    with pytest.raises(InputError, match="unknown device 'gpu'"):
        load(model.module, device="gpu")


def test_a_model_is_given_back_and_is_frozen():
    model = tiny("llama")
    assert load(model) is model
    with pytest.raises(AttributeError):
        model.name = "other"
    with pytest.raises(InputError, match=r"load\(model.module, tokenizer=tokenizer\)"):
        load(model, tokenizer=tiny_chat_tokenizer())


def test_plain_modules(draws):
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    model = load(net, name="mine")
    assert (model.name, model.takes, model.backbone, model.max_length) == ("mine", "tensor", net, None)
    assert model.sites() == ()


def test_the_limit_is_the_smaller_of_the_model_s_and_the_tokenizer_s():
    model = tiny("llama")
    tokenizer = tiny_chat_tokenizer()
    tokenizer.model_max_length = 20
    assert model.max_length == 64
    assert load(model.module, tokenizer=tokenizer).max_length == 20
    assert tiny("mamba").max_length is None


def test_pickled_weights_are_refused(tmp_path, monkeypatch):
    model = tiny("llama")
    folder = save(model, tmp_path / "it")
    (folder / "model.safetensors").unlink()
    torch.save(model.module.state_dict(), folder / "pytorch_model.bin")
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("a pickle was read"))
    with pytest.raises(ModelError, match=r"only pickled weights \(pytorch_model.bin\).*save_pretrained"):
        load(folder)
    with pytest.raises(ModelError, match="pickled weights, which can run any code"):
        load(folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "no config.json"),
        ({"config.json": "{}"}, "has no weights"),
        ({"adapter_config.json": "{}", "adapter_model.safetensors": ""}, "merge_and_unload"),
        ({"a.gguf": "", "b.gguf": ""}, "name one of them"),
        ({"config.json": "{", "model.safetensors": ""}, "cannot load"),
        ({"config.json": '{"model_type": "no-such-kind"}', "model.safetensors": ""}, "cannot load"),
        ({"config.json": '{"model_type": "llama", "hidden_size": "wide"}', "model.safetensors": ""}, "cannot load"),
    ],
)
def test_folders_that_are_no_model(files, says, tmp_path):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ModelError) as caught:
        load(tmp_path)
    assert says in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("damage", ["truncated", "garbage"])
def test_damaged_safetensors(damage, tmp_path):
    folder = save(tiny("llama"), tmp_path)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000] if damage == "truncated" else b"x" * 5000)
    with pytest.raises(ModelError, match="cannot load"):
        load(folder)


def test_weights_that_the_blocks_need_must_be_there(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = save(tiny("llama"), tmp_path)
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks 1 of the weights .*model.layers.1.mlp.up_proj.weight"):
        load(folder)


def test_weights_that_no_site_needs_may_be_missing_and_are_the_same_each_time(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = save(tiny("bert"), tmp_path)
    weights = {name: value for name, value in load_file(folder / "model.safetensors").items() if "pooler" not in name}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert load(folder).fingerprint == load(folder).fingerprint


def test_code_that_comes_with_a_model_is_never_run(tmp_path):
    folder = save(tiny("llama"), tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    with pytest.raises(ModelError, match=r"never runs.*load\(module, tokenizer=tokenizer\)"):
        load(folder)
    assert "evil" not in sys.modules


def test_paths_that_lead_nowhere(tmp_path):
    for path in (str(tmp_path / "none"), "./none", "~/no-such-folder-of-mine", "a/b/c", "none.gguf"):
        with pytest.raises(ModelError, match="there is no model at"):
            load(path)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ModelError, match="is no model: expected a folder"):
        load(tmp_path / "notes.txt")


def test_a_failed_download_repeats_the_id_and_says_what_to_do(monkeypatch):
    from transformers import AutoConfig

    def refuse(*_args, **_settings):
        raise OSError("We couldn't connect to 'https://huggingface.co'\nmore lines")

    monkeypatch.setattr(AutoConfig, "from_pretrained", refuse)
    with pytest.raises(ModelError, match=r"cannot load 'someone/some-model': OSError: We couldn't connect.*check its spelling"):
        load("someone/some-model")


def test_encoder_decoders_are_refused_and_their_encoder_is_welcome(draws):
    import transformers

    sizes = {"vocab_size": 384, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    module = transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes))
    with pytest.raises(ModelError, match=r"encoder-decoder.*get_encoder"):
        load(module)
    assert load(module.get_encoder(), tokenizer=tiny_chat_tokenizer()).sites() == ("embed", "layers[0]", "layers[1]", "final_norm")


def test_progress_bars_of_transformers_are_as_before(tmp_path, capsys):
    from transformers.utils import logging

    folder = save(tiny("llama"), tmp_path)
    shown = logging.is_progress_bar_enabled()
    capsys.readouterr()
    load(folder)
    assert capsys.readouterr().err == ""
    assert logging.is_progress_bar_enabled() == shown
