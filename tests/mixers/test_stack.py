"""Whole models: as transformers uses them, against themselves without a cache, and with what they cannot use."""

import inspect
import random
import re

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

import transect
from transect import mixers
from transect.errors import InputError, ModelError
from transect.mixers.models import StackCache
from transect.mixers.models.kinds import feed_forward_kinds, layer_kinds
from transect.mixers.models.needs import check_transformers
from transect.testing import tiny_tokenizer

EVERYTHING = ["gdn", {"kind": "mamba2", "head_k_dim": 4}, {"kind": "attention", "window": 5}, "kda", "Attention"]


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def _model(layers=EVERYTHING, **settings):
    return mixers.build(mixers.StackConfig(**{"layers": layers, "hidden_size": 16, "num_heads": 2, "vocab_size": 29, **settings})).eval()


def _near(one, other, bound=1e-5):
    assert one.shape == other.shape
    assert float((one - other).detach().abs().max() / other.detach().abs().max()) < bound


@pytest.mark.parametrize("alias", sorted(name for name in layer_kinds() if name != "gateddeltanet"))
def test_every_layer_goes_into_a_stack_and_goes_on_from_its_cache(alias):
    model = _model([alias])
    ids = torch.randint(0, 29, (2, 9))
    with torch.no_grad():
        whole = model(ids, use_cache=False).logits
        first = model(ids[:, :4], use_cache=True)
        rest = [model(ids[:, at : at + 1], cache=first.cache).logits for at in range(4, 9)]
    _near(torch.cat([first.logits, *rest], 1), whole)
    assert first.cache.get_seq_length() == 9


@pytest.mark.parametrize("kind", sorted(feed_forward_kinds()))
def test_every_feed_forward_layer_goes_into_a_stack(kind):
    model = _model(["gla"], feed_forward=kind)
    model.train()
    model(torch.randint(0, 29, (2, 9)), labels=torch.randint(0, 29, (2, 9))).loss.backward()
    assert all(part.grad is not None and part.grad.isfinite().all() for part in model.parameters())


def test_padding_anywhere_changes_nothing():
    model, ids = _model(), torch.randint(0, 29, (3, 11))
    masks = torch.ones(3, 11, dtype=torch.long)
    masks[0, :4], masks[1, 8:], masks[2, 3:6] = 0, 0, 0
    with torch.no_grad():
        logits = model(ids, attention_mask=masks).logits
        for row, mask, one in zip(ids, masks.bool(), logits, strict=True):
            _near(one[mask], model(row[mask][None]).logits[0])


@pytest.mark.parametrize("settings", [{"do_sample": False}, {"num_beams": 3, "do_sample": False}, {"do_sample": True, "top_k": 5}])
def test_generates_the_same_with_and_without_a_cache_alone_and_in_a_padded_batch(settings):
    model, prompts = _model(), [[1, 2, 3, 4, 5, 6], [7, 8]]
    ids, mask = torch.zeros(2, 6, dtype=torch.long), torch.zeros(2, 6, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        ids[row, 6 - len(prompt) :], mask[row, 6 - len(prompt) :] = torch.tensor(prompt), 1

    def run(*, use_cache, ids=ids, mask=mask):
        torch.manual_seed(1)
        return model.generate(ids, attention_mask=mask, max_new_tokens=8, use_cache=use_cache, **settings)[:, ids.shape[1] :]

    both = run(use_cache=True)
    assert torch.equal(both, run(use_cache=False))
    if not settings["do_sample"]:
        for row, prompt in enumerate(prompts):
            assert torch.equal(both[row : row + 1], run(use_cache=True, ids=torch.tensor([prompt]), mask=torch.ones(1, len(prompt))))


def test_packed_sequences_stay_apart_and_do_not_predict_each_other():
    model, ids = _model(), torch.randint(0, 29, (1, 12))
    with torch.no_grad():
        packed = model(ids, cu_seqlens=[0, 5, 12], labels=ids)
        apart = [model(ids[:, start:end], labels=ids[:, start:end]) for start, end in ((0, 5), (5, 12))]
    _near(packed.logits, torch.cat([one.logits for one in apart], 1))
    assert float(packed.loss) == pytest.approx(float((4 * apart[0].loss + 6 * apart[1].loss) / 10), abs=1e-6)


def test_labels_of_minus_100_and_of_padding_do_not_count():
    model, ids = _model(), torch.randint(0, 29, (1, 8))
    labels = ids.clone()
    labels[:, :5] = -100
    truth = torch.nn.functional.cross_entropy(model(ids).logits[0, 4:-1], ids[0, 5:])
    assert torch.allclose(model(ids, labels=labels).loss, truth)
    padded, mask = torch.cat([torch.zeros(1, 3, dtype=torch.long), ids], 1), torch.tensor([[0] * 3 + [1] * 8])
    assert torch.allclose(model(padded, attention_mask=mask, labels=padded).loss, model(ids, labels=ids).loss, atol=1e-6)


def test_saved_in_shards_and_loaded_it_is_the_same(tmp_path):
    model, ids = _model(["gdn", "lightningattention", "retnet"]), torch.randint(0, 29, (2, 9))
    model.save_pretrained(tmp_path, max_shard_size="10KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert type(again) is type(model)
    assert again.lm_head.weight is again.model.embed_tokens.weight
    with torch.no_grad():
        assert torch.equal(again.eval()(ids).logits, model(ids).logits)
    assert AutoConfig.from_pretrained(tmp_path).layers == model.config.layers


def test_checkpointed_gradients_are_the_same():
    model, ids = _model().train(), torch.randint(0, 29, (2, 9))
    model(ids, labels=ids).loss.backward()
    plain = {name: part.grad.clone() for name, part in model.named_parameters()}
    model.zero_grad()
    model.activation_checkpointing_enable()
    model(ids, labels=ids).loss.backward()
    assert all(torch.equal(part.grad, plain[name]) for name, part in model.named_parameters())
    with pytest.raises(InputError, match="write to it twice"):
        model(ids, use_cache=True)


def test_trains_with_the_trainer(tmp_path):
    from transformers import Trainer, TrainingArguments

    model = _model(["gdn", "attention"])
    rows = [{"input_ids": ids, "labels": ids} for ids in torch.arange(8).repeat(16, 2) % 29]
    before = float(model(rows[0]["input_ids"][None], labels=rows[0]["input_ids"][None]).loss.detach())
    settings = TrainingArguments(
        str(tmp_path),
        max_steps=30,
        per_device_train_batch_size=8,
        learning_rate=1e-2,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        save_strategy="no",
    )
    kept = random.getstate(), np.random.get_state()  # noqa: NPY002 - the Trainer seeds everything
    try:
        Trainer(model=model, args=settings, train_dataset=rows).train()
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002
    model.eval()
    after = float(model(rows[0]["input_ids"][None], labels=rows[0]["input_ids"][None]).loss.detach())
    assert after < before / 2


def test_a_compiled_model_is_the_same_and_in_one_piece():
    model, ids = _model(["gdn", "gla"]), torch.randint(0, 29, (2, 40))
    with torch.no_grad():
        _near(torch.compile(model, backend="eager")(ids, use_cache=False).logits, model(ids, use_cache=False).logits)
        layer = model.model.layers[0].mixer
        x = torch.randn(2, 1, 16)
        _near(torch.compile(layer, backend="aot_eager", fullgraph=True)(x), layer(x))


def test_16_bit_weights_work():
    model = _model().to(torch.bfloat16)
    assert model(torch.randint(0, 29, (2, 9))).logits.isfinite().all()


def test_a_cache_resets_repeats_and_is_not_cut():
    model, ids = _model(), torch.randint(0, 29, (2, 6))
    cache = StackCache()
    with torch.no_grad():
        first = model(ids, cache=cache).logits
        cache.batch_repeat_interleave(2)
        again = model(ids.repeat_interleave(2, 0), cache=cache).logits
        assert again.shape[0] == 4
        with pytest.raises(InputError, match="snapshot"):
            cache.crop(3)
        cache.reset()
        assert torch.equal(model(ids, cache=cache).logits, first)


def test_its_activations_are_captured_as_those_of_any_model():
    tokenizer = tiny_tokenizer()
    model = transect.load(_model(["gdn", "mamba2", "attention"], vocab_size=len(tokenizer)), tokenizer=tokenizer)
    texts = ["The city of Paris is in France.", "Rome is old.", "x"]
    sites = ["layers[*]", "layers[0].attn.out", "layers[1].mlp.out", "final_norm"]
    together = transect.capture(model, texts, sites=sites, tokens="last")
    for site in ("layers[2]", "layers[0].attn.out", "final_norm"):
        alone = torch.cat([transect.capture(model, [text], sites=site, tokens="last")[site] for text in texts])
        assert torch.allclose(together[site], alone, atol=1e-6)
    with torch.no_grad():
        ids = torch.tensor([tokenizer(texts[0])["input_ids"]])
        stream = model.module(ids, output_hidden_states=True).hidden_states
    assert torch.allclose(together["layers[0]"][0], stream[1][0, -1], atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"hiden_size": 3}, "hidden_size"),
        ({"layers": ["gnd"]}, "gdn"),
        ({"layers": [{"kind": "gdn", "windw": 3}]}, "GatedDeltaNet takes no setting 'windw'"),
        ({"layers": [{"kind": "gdn", "conv_size": "x"}]}, "conv_size of GatedDeltaNet as a whole number or none, got 'x'"),
        ({"layers": [{"kind": "gdn", "use_gate": 1}]}, "use_gate of GatedDeltaNet as true or false, got 1"),
        ({"layers": [{"kind": "s4d", "discretization": "zoo"}]}, "discretization of S4D as 'zoh' or 'bilinear', got 'zoo'"),
        ({"layers": [{"kind": "attention", "windw": 3}]}, "window"),
        ({"layers": []}, "at least one layer"),
        ({"feed_forward": "swigly"}, "swiglu"),
        ({"feed_forward": ["moe"]}, "for each of 2 layers, got 1"),
        ({"num_hidden_layers": 3}, "number of layers, 2"),
    ],
)
def test_refuses_configurations(settings, says):
    with pytest.raises(InputError, match=says):
        mixers.StackConfig(**{"layers": ["gdn", "gla"], **settings})


def test_refuses_inputs():
    model, ids = _model(["gdn"]), torch.randint(0, 29, (2, 6))
    with pytest.raises(InputError, match="one of them"):
        model()
    with pytest.raises(InputError, match=r"\[2, 6\], got \[2, 5\]"):
        model(ids, attention_mask=torch.ones(2, 5))
    with pytest.raises(InputError, match="got DynamicCache"):
        from transformers import DynamicCache

        model(ids, cache=DynamicCache())
    with pytest.raises(InputError, match="logits of all tokens"):
        model(ids, labels=ids, logits_to_keep=1)
    with pytest.raises(InputError, match="one kind of cache"):
        model.generate(ids, max_new_tokens=2, cache_implementation="static")


def test_every_alias_is_one_layer():
    kinds = layer_kinds()
    assert kinds["gdn"] is mixers.GatedDeltaNet
    aliases = [kind.alias for kind in set(kinds.values()) if kind.alias is not None]
    assert len(aliases) == len(set(aliases))
    assert all(not inspect.isabstract(kind) for kind in kinds.values())


@pytest.mark.parametrize("version", ["5.23.0", "5.3.0.dev0", "4.57.6"])
def test_refuses_a_transformers_that_would_lose_its_cache(version):
    with pytest.raises(ModelError, match=f"5.24 or later .*{re.escape(version)}"):
        check_transformers(version)
    check_transformers("5.100.0.dev0")
    check_transformers("6.0")
