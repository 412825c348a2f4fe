import numpy as np
import pytest
import torch
from torch import nn

from transect.capture import capture
from transect.capture.naive import naive_capture
from transect.data import read_table
from transect.errors import InputError, ModelError, SiteError, TableError, TokenRuleError
from transect.models import load
from transect.testing.tiny import tiny, tiny_chat_tokenizer, tiny_tokenizer


@pytest.fixture(scope="module")
def llama():
    return tiny("llama")


def hidden_states(model, text):
    """What transformers itself returns for one text alone."""
    ids = model.tokenizer(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        return model.backbone(ids, output_hidden_states=True).hidden_states


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3", "qwen3", "bert"])
def test_block_i_is_transformers_hidden_state_i_plus_1(family, texts):
    model = tiny(family)
    acts = capture(model, texts, sites=model.sites(), batch_tokens=40)
    last = len(model.structure.blocks)
    for row, text in enumerate(texts):
        states = hidden_states(model, text)
        for index in range(last - 1):
            torch.testing.assert_close(acts[f"layers[{index}]"][row], states[index + 1][0, -1], rtol=1e-5, atol=1e-5)
        end = "final_norm" if model.structure.final_norm else f"layers[{last - 1}]"
        torch.testing.assert_close(acts[end][row], states[last][0, -1], rtol=1e-5, atol=1e-5)


def test_the_last_block_is_not_the_normed_state(llama, texts):
    acts = capture(llama, texts, sites=["layers[-1]", "final_norm"])
    assert acts.sites == ("layers[2]", "final_norm")
    assert (acts["layers[2]"] - acts["final_norm"]).abs().max() > 0.1


def test_rows_say_what_was_read(llama, texts):
    table = read_table([{"text": text, "label": index % 2, "group": f"g{index}"} for index, text in enumerate(texts)])
    acts = capture(llama, table, tokens="-2", batch_tokens=40)
    for row, text in enumerate(texts):
        ids = llama.tokenizer(text)["input_ids"]
        found = acts.rows.slice(row, 1).to_pylist()[0]
        assert found["token_ids"] == ids
        assert (found["row"], found["n_tokens"]) == (row, len(ids))
        assert (found["start"], found["stop"]) == (len(ids) - 2, len(ids) - 1)
        assert (found["label"], found["group"]) == (row % 2, f"g{row}")
    hashes = acts.rows["text_hash"].to_pylist()
    assert hashes[1] == hashes[6]
    assert len(set(hashes)) == 6


def test_all_tokens_have_a_row_each_that_says_which(llama, texts):
    acts = capture(llama, texts, sites="layers[1]", tokens="all", batch_tokens=40)
    n_tokens = [len(llama.tokenizer(text)["input_ids"]) for text in texts]
    assert len(acts) == sum(n_tokens)
    assert acts.rows["row"].to_pylist() == np.repeat(range(7), n_tokens).tolist()
    assert acts.rows["position"].to_pylist() == [position for n in n_tokens for position in range(n)]
    assert acts.rows["token_id"].to_pylist() == [token for text in texts for token in llama.tokenizer(text)["input_ids"]]
    torch.testing.assert_close(
        acts["layers[1]"], naive_capture(llama, texts, sites="layers[1]", tokens="all")["layers[1]"], rtol=0, atol=1e-6
    )


@pytest.mark.parametrize(
    "site", ["layers[1].in", "layers[1].attn.out", "layers[1].mlp.out", "layers[1].mlp.act", "layers[1].attn.heads", "model.norm"]
)
def test_parts_of_blocks_can_be_read(llama, texts, site):
    acts = capture(llama, texts, sites=site, batch_tokens=40)
    (name,) = acts.sites
    torch.testing.assert_close(acts[name], naive_capture(llama, texts, sites=site)[name], rtol=0, atol=1e-6)


def test_a_span_is_the_mean_over_its_tokens(llama):
    table = read_table([{"text": "The city of Paris", "place": "Paris"}, {"text": "Lima is old", "place": "Lima"}], span="place")
    acts = capture(llama, table, sites="layers[0]", tokens="span:place")
    every = capture(llama, table, sites="layers[0]", tokens="all")
    for row, (start, stop) in enumerate(zip(acts.rows["start"].to_pylist(), acts.rows["stop"].to_pylist(), strict=True)):
        mine = every["layers[0]"][np.array(every.rows["row"]) == row]
        torch.testing.assert_close(acts["layers[0]"][row], mine[start:stop].mean(0), rtol=0, atol=1e-6)
    with pytest.raises(TableError, match="needs a span column 'town'"):
        capture(llama, table, tokens="span:town")


def test_chats_are_read_before_their_answer():
    model = load(tiny("llama").module, tokenizer=tiny_chat_tokenizer())
    chats = [
        [{"role": "user", "content": "Is ten larger?"}, {"role": "assistant", "content": answer}] for answer in ("Yes", "No it is not")
    ]
    acts = capture(model, read_table(chats), sites="layers[1]", tokens="prompt[-1]")
    torch.testing.assert_close(acts["layers[1]"][0], acts["layers[1]"][1], rtol=0, atol=1e-6)
    plain = capture(model, ["Is ten larger?"], sites="layers[1]", chat=True)
    torch.testing.assert_close(acts["layers[1]"][0], plain["layers[1]"][0], rtol=0, atol=1e-6)
    assert plain.provenance["chat"]
    assert plain.provenance["tokenizer"]["starts_with_bos"]


def test_no_chat_template_is_an_error(llama):
    with pytest.raises(InputError, match="chat template"):
        capture(llama, ["Yes"], chat=True)


def test_long_texts_are_refused_or_cut_and_counted(llama):
    long = "Paris is in France. " * 40
    with pytest.raises(InputError, match="longer than the limit of 64"):
        capture(llama, ["Yes", long])
    acts = capture(llama, ["Yes", long], truncate=True)
    assert acts.provenance["n_truncated"] == 1
    assert acts.rows["n_tokens"].to_pylist()[1] == 64


@pytest.mark.parametrize(("family", "shape"), [("vit", (5, 3, 8, 8)), ("gru", (5, 7, 8)), ("mlp", (5, 8))])
def test_models_that_take_tensors(family, shape):
    model, data = tiny(family), torch.randn(*shape)
    rules = ("last",) if family == "mlp" else ("last", "0", "mean", "all")
    for rule in rules:
        acts = capture(model, data, sites=["layers[0]", "layers[1]"], tokens=rule, batch_tokens=16)
        expected = naive_capture(model, data, sites=["layers[0]", "layers[1]"], tokens=rule)
        torch.testing.assert_close(acts["layers[1]"], expected["layers[1]"], rtol=0, atol=1e-6)
        assert acts.rows["row"].to_pylist() == np.repeat(range(5), len(acts) // 5).tolist()


def test_rules_about_tokens_need_tokens():
    with pytest.raises(TokenRuleError, match=r"layers\[0\]: it has one vector per example"):
        capture(tiny("mlp"), torch.randn(3, 8), tokens="mean")


def test_texts_and_tensors_go_to_models_that_take_them(llama):
    with pytest.raises(InputError, match="takes text"):
        capture(llama, torch.randn(3, 8))
    with pytest.raises(InputError, match="takes tensors"):
        capture(tiny("mlp"), ["Yes"])
    with pytest.raises(InputError, match="at least one example"):
        capture(tiny("mlp"), torch.empty(0, 8))
    with pytest.raises(InputError, match="load it first"):
        capture(llama.module, ["Yes"])


@pytest.mark.parametrize(("data", "error"), [([], TableError), (["Yes", ""], TableError), (["Yes", "  "], TableError)])
def test_no_texts_and_empty_texts_are_refused(llama, data, error):
    with pytest.raises(error):
        capture(llama, data)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"sites": "layer[0]"}, SiteError, "layer"),
        ({"sites": "layers[9]"}, SiteError, "9"),
        ({"sites": "lm_head"}, SiteError, "lm_head did not run"),
        ({"tokens": "lst"}, TokenRuleError, "lst"),
        ({"tokens": "6"}, TokenRuleError, "row 1"),
        ({"dtype": "int8"}, InputError, "'int8'; choose one of float64"),
        ({"dtype": "flaot32"}, InputError, "flaot32"),
        ({"batch_tokens": 0}, InputError, "batch_tokens=0"),
        ({"verify": -1}, InputError, "-1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(llama, texts, settings, error, message):
    with pytest.raises(error, match=message):
        capture(llama, texts, **settings)


class Custom(nn.Module):
    """A plain module over ``[n, t, 4]`` whose blocks do what capture tools trip over."""

    def __init__(self, *, tuples=False, overwrite=False, sequence_first=False):
        super().__init__()
        self.first = nn.Parameter(torch.zeros(3, dtype=torch.uint8), requires_grad=False)  # as quantised models begin
        self.layers = nn.ModuleList(Block(tuples=tuples) for _ in range(12))
        self.overwrite = overwrite
        self.sequence_first = sequence_first

    def forward(self, x):
        if self.sequence_first:
            x = x.transpose(0, 1)
        for layer in self.layers:
            x = layer(x)
            x = x[0] if isinstance(x, tuple) else x
            if self.overwrite:
                x.mul_(-100.0)
        return x


class Block(nn.Module):
    def __init__(self, *, tuples):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.tuples = tuples

    def forward(self, x):
        x = x + self.linear(x)
        return (x, None) if self.tuples else x


@pytest.mark.parametrize("n", [1, 4, 6])
@pytest.mark.parametrize("settings", [{}, {"tuples": True}, {"overwrite": True}, {"sequence_first": True}])
def test_tuples_tensors_overwriting_and_turned_axes(settings, n):
    # n = 4 and n = 6: a tensor [n, t, d] must not be indexed like a tuple, nor n be taken for d or t.
    model, data = load(Custom(**settings), name="custom"), torch.randn(n, 6, 4)
    acts = capture(model, data, sites="layers[*]", batch_tokens=12)
    assert acts.sites == tuple(f"layers[{index}]" for index in range(12))
    x = data
    for index, layer in enumerate(model.module.layers):
        with torch.no_grad():
            x = x + layer.linear(x)
        torch.testing.assert_close(acts[f"layers[{index}]"], x[:, -1], rtol=0, atol=1e-6)
        x = x * -100 if settings.get("overwrite") else x
    assert acts["layers[0]"].dtype == torch.float32


def test_no_whole_tensor_is_kept_alive(llama, texts):
    acts = capture(llama, texts)
    for site in acts.sites:
        assert acts[site].untyped_storage().nbytes() == acts[site].numel() * acts[site].element_size()


def test_no_more_of_the_model_runs_than_is_needed(llama, texts):
    ran = set()
    handles = [module.register_forward_hook(lambda *_, name=name: ran.add(name)) for name, module in llama.module.named_modules()]
    acts = capture(llama, texts, sites="layers[0]", batch_tokens=20)
    assert len(acts) == 7
    assert "model.layers.2" in ran  # once, to see that nothing runs twice
    assert "lm_head" not in ran
    ran.clear()
    counts = []
    handles.append(llama.module.model.layers[1].register_forward_hook(lambda *_: counts.append(1)))
    capture(llama, texts, sites="layers[0]", batch_tokens=20)
    assert len(counts) == 1
    for handle in handles:
        handle.remove()


def test_transformers_own_capture_still_works_afterwards(texts):
    model = tiny("llama")
    capture(model, texts)
    assert len(hidden_states(model, texts[0])) == 4


def test_a_config_that_asks_for_hidden_states_does_not_leave_hooks(texts):
    model = tiny("llama")
    model.module.config.output_hidden_states = True
    capture(model, texts)
    assert all(len(module._forward_hooks) == 0 for module in model.module.modules())


def test_a_nan_is_an_error_that_names_row_and_site(llama, texts):
    longest = max(len(llama.tokenizer(text)["input_ids"]) for text in texts)

    def spoil(_module, _args, output):
        return output * torch.inf if output.shape[1] == longest else output

    with llama.module.model.layers[1].register_forward_hook(spoil), pytest.raises(ModelError, match=r"row 2 .*layers\[1\]"):
        capture(llama, texts, batch_tokens=1)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16", torch.bfloat16])
def test_a_type_may_be_asked_for(llama, texts, dtype):
    acts, plain = capture(llama, texts, dtype=dtype), capture(llama, texts)
    wanted = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    assert torch.equal(acts["layers[1]"], plain["layers[1]"].to(wanted))
    assert acts.provenance["dtype"] == str(wanted).removeprefix("torch.")


def test_the_models_own_type_is_kept(texts):
    model = load(tiny("llama").module.to(torch.bfloat16), tokenizer=tiny_tokenizer())
    assert capture(model, texts)["layers[1]"].dtype == torch.bfloat16


def test_verify_reports_the_largest_difference(llama, texts):
    report = capture(llama, texts, verify=3, batch_tokens=40).provenance["verify"]
    assert report["n"] == 3
    assert 0 <= report["largest_difference"] < 1e-5
    assert capture(llama, texts, verify=100).provenance["verify"]["n"] == 7
    assert capture(llama, texts).provenance["verify"] is None


def test_verify_sees_a_model_whose_rows_depend_on_their_batch():
    class Mixing(Custom):
        def forward(self, x):
            return super().forward(x + x.mean(dim=0, keepdim=True))

    report = capture(load(Mixing(), name="mixing"), torch.randn(6, 5, 4), verify=2).provenance["verify"]
    assert report["relative_difference"] > 0.01


def test_provenance_says_what_was_done(llama, texts):
    import json

    acts = capture(llama, texts, sites=["layers[0]"], batch_tokens=40)
    provenance = json.loads(json.dumps(acts.provenance))
    assert provenance["model"] == {"name": "tiny-llama", "fingerprint": llama.fingerprint, "dtype": "float32", "device": "cpu"}
    assert (provenance["sites"], provenance["tokens"], acts.tokens) == (["layers[0]"], "last", "last")
    assert (provenance["n_texts"], provenance["n_truncated"]) == (7, 0)
    assert provenance["n_tokens"] == sum(acts.rows["n_tokens"].to_pylist())
    assert provenance["conditions"]["versions"]["torch"]
    assert provenance["tokens_per_second"] > 0


def test_one_text_and_one_long_batch(llama):
    assert capture(llama, ["Yes"], sites="layers[2]")["layers[2]"].shape == (1, 16)
    assert capture(llama, ["Yes"] * 50, sites="layers[2]").provenance["conditions"]["batches"] == 1


def test_a_compiled_module_is_read_right_or_refused(texts):
    model = tiny("llama")
    expected = capture(model, texts)
    compiled = load(torch.compile(model.module, backend="eager"), tokenizer=tiny_tokenizer(), name="compiled")
    try:
        acts = capture(compiled, texts)
    except SiteError as error:
        assert "compile" in str(error)
    else:
        for site, twin in zip(acts.sites, expected.sites, strict=True):
            torch.testing.assert_close(acts[site], expected[twin], rtol=0, atol=1e-6)


def test_many_texts_are_tokenised_in_pieces_and_rows_are_counted_over_all(llama, monkeypatch):
    import sys

    texts = [f"Is {'ten ' * (row % 5)}larger" for row in range(23)]
    expected = capture(llama, texts, sites="layers[1]", tokens="all")
    monkeypatch.setattr(sys.modules["transect.capture.examples"], "_PIECE", 4)
    acts = capture(llama, texts, sites="layers[1]", tokens="all")
    assert acts.rows.equals(expected.rows)
    assert torch.equal(acts["layers[1]"], expected["layers[1]"])
    texts[21] = "Paris is in France. " * 40
    with pytest.raises(InputError, match=r"1 of 23 texts are longer .* row 21"):
        capture(llama, texts)
