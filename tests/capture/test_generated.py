"""Activations of generated tokens: equal to one clean pass over the finished text, token by token and aligned."""

import dataclasses

import pytest
import torch

from transect.capture.generated import capture_generated
from transect.capture.hooks import first_tensor
from transect.errors import InputError, SiteError, TokenRuleError
from transect.testing import tiny, tiny_chat_tokenizer
from transect.testing.capture_checks import _equal, _state

PROMPTS = ["The city of Paris is", "Lima", "Water boils at one hundred degrees", "Yes: it is"]
SITES = ["layers[1]", "final_norm"]


def clean(model, ids, site):
    """One text alone through the whole backbone, by a bare hook: ``[t, d]``."""
    path = {"layers[1]": model.structure.blocks[1], "final_norm": model.structure.final_norm}[site]
    kept = []
    hook = model.module.get_submodule(path).register_forward_hook(lambda _module, _args, output: kept.append(output))
    try:
        with torch.no_grad():
            model.backbone(torch.tensor([ids]))
    finally:
        hook.remove()
    return first_tensor(kept[0], None)[0]  # pyright: ignore[reportArgumentType] - the place is only named in an error


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3", "mamba2"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_every_generated_token_has_the_activation_of_a_clean_pass(family, side):
    model = tiny(family)
    model.tokenizer.padding_side = side
    made = capture_generated(model, PROMPTS, sites=SITES, max_new_tokens=6, batch_size=3)
    assert len(made) == 4
    for site in SITES:
        aligned = made.aligned(site)
        for row in range(len(made)):
            ids = made.sequences[row][made.mask[row]].tolist()
            n = len(made.token_ids[row])
            expected = clean(model, ids, site)[-n:]
            got = aligned[row, made.prompt_length : made.prompt_length + n]
            assert torch.allclose(got, expected, rtol=1e-5, atol=1e-5)
            assert torch.isnan(aligned[row, made.prompt_length + n :]).all()
            assert torch.isnan(aligned[row, : made.prompt_length]).all()


def test_tokens_are_those_that_generate_gives_to_each_prompt_alone():
    model = tiny("gpt2")
    made = capture_generated(model, PROMPTS, sites="layers[0]", max_new_tokens=6)
    for prompt, ids in zip(PROMPTS, made.token_ids, strict=True):
        given = torch.tensor([model.tokenizer(prompt)["input_ids"]])
        alone = model.module.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=6, do_sample=False, pad_token_id=0)
        assert alone[0, given.shape[1] :].tolist() == list(ids)
    assert made.texts == tuple(model.tokenizer.batch_decode(made.token_ids, skip_special_tokens=True))


@pytest.fixture
def ends_early():
    """A model that ends texts at any of a third of its tokens."""
    model = tiny("llama")
    model.module.generation_config.eos_token_id = list(range(2, 384, 3))
    return model


def test_rows_that_end_early_end_there(ends_early):
    made = capture_generated(ends_early, PROMPTS, sites="layers[1]", max_new_tokens=12, do_sample=True, temperature=5.0, seed=1)
    lengths = [len(ids) for ids in made.token_ids]
    assert len(set(lengths)) > 1, "the seed must end rows at different places"
    ends = set(range(2, 384, 3))
    for ids, finish in zip(made.token_ids, made.finish, strict=True):
        assert not ends & set(ids[:-1])
        assert finish == ("end" if ids[-1] in ends else "length")
    assert made.mask[:, made.prompt_length :].sum(1).tolist() == lengths
    assert made["layers[1]"].shape == (sum(lengths), 16)


@pytest.mark.parametrize(
    ("rule", "pick"),
    [
        ("generated[0]", lambda acts, n: acts[n]),
        ("generated[-1]", lambda acts, _n: acts[-1]),
        ("generated[:]", lambda acts, n: acts[n:].mean(0)),
        ("generated[1:3]", lambda acts, n: acts[n + 1 : n + 3].mean(0)),
        ("prompt[-1]", lambda acts, n: acts[n - 1]),
        ("mean", lambda acts, _n: acts.mean(0)),
        ("last", lambda acts, _n: acts[-1]),
    ],
)
def test_token_rules(rule, pick):
    model = tiny("llama")
    made = capture_generated(model, PROMPTS, sites="layers[1]", tokens=rule, max_new_tokens=4)
    for row, answer in enumerate(made.token_ids):
        ids = made.sequences[row][made.mask[row]].tolist()
        expected = pick(clean(model, ids, "layers[1]"), len(ids) - len(answer))
        assert torch.allclose(made["layers[1]"][row], expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match="one row per text"):
        made.aligned("layers[1]")


def test_all_reads_prompt_and_answer():
    made = capture_generated(tiny("llama"), PROMPTS, sites="layers[1]", tokens="all", max_new_tokens=3)
    assert torch.equal(~torch.isnan(made.aligned("layers[1]")).any(-1), made.mask)


def test_the_seed_decides_and_the_global_state_stays():
    model, settings = tiny("llama"), {"sites": "layers[0]", "max_new_tokens": 8, "do_sample": True}
    before = torch.get_rng_state()
    first = capture_generated(model, PROMPTS, seed=3, **settings)
    torch.rand(5)
    again = capture_generated(model, PROMPTS, seed=3, **settings)
    other = capture_generated(model, PROMPTS, seed=4, **settings)
    torch.set_rng_state(before)
    assert first.token_ids == again.token_ids
    assert first.token_ids != other.token_ids
    assert torch.equal(first["layers[0]"], again["layers[0]"])


@pytest.mark.parametrize("family", ["llama", "rwkv"])
def test_nothing_is_left_behind(family):
    model = tiny(family)
    model.module.train()
    before = _state(model.module)
    config = model.module.generation_config.to_dict()
    capture_generated(model, ["Lima"], sites="layers[1]", max_new_tokens=3)
    after = _state(model.module)
    assert [name for name in before | after if not _equal(before.get(name), after.get(name))] == []
    assert model.module.generation_config.to_dict() == config


def test_chats_wait_for_their_answer():
    model = dataclasses.replace(tiny("llama"), tokenizer=tiny_chat_tokenizer())
    asked = [{"role": "user", "content": "Is it?"}]
    made = capture_generated(model, ["Is it?"], sites="layers[1]", max_new_tokens=3, chat=True)
    same = capture_generated(model, [asked], sites="layers[1]", max_new_tokens=3)
    assert made.token_ids == same.token_ids
    assert model.tokenizer.decode(made.sequences[0, : made.prompt_length]).endswith("<turn>assistant\n")
    with pytest.raises(InputError, match="row 0 ends with an answer"):
        capture_generated(model, [[*asked, {"role": "assistant", "content": "Yes"}]], sites="layers[1]", max_new_tokens=3)


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"max_new_tokens": 0}, InputError, "max_new_tokens must be"),
        ({"batch_size": 0}, InputError, "batch_size must be"),
        ({"temperature": 1.0}, InputError, "do_sample=False draws nothing"),
        ({"do_sample": True, "temperature": 0.0}, InputError, "temperature must be above 0"),
        ({"do_sample": True, "top_p": 1.5}, InputError, "top_p is a probability"),
        ({"tokens": "span:city"}, InputError, "needs a table"),
        ({"tokens": "role:user"}, InputError, "needs a table"),
        ({"tokens": "generated[9]"}, TokenRuleError, r"row 0 .*the answer has 3 tokens"),
        ({"sites": "layers[9]"}, SiteError, "layers"),
        ({"max_new_tokens": 64}, InputError, "passes the model's limit of 64"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, error, says):
    with pytest.raises(error, match=says):
        capture_generated(tiny("gpt2"), ["Lima"], **{"sites": "layers[1]", "max_new_tokens": 3, **settings})


def test_models_that_cannot_generate_and_no_prompts_are_refused():
    with pytest.raises(InputError, match="cannot generate"):
        capture_generated(tiny("bert"), ["Lima"], max_new_tokens=3)
    with pytest.raises(InputError, match="at least one prompt"):
        capture_generated(tiny("llama"), [], max_new_tokens=3)
    with pytest.raises(InputError, match="expected a Model"):
        capture_generated(tiny("llama").module, ["Lima"], max_new_tokens=3)  # pyright: ignore[reportArgumentType]
