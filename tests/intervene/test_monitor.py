"""Monitors: scores equal those of finished texts however they were generated, and whatever could be wrong is said."""

import dataclasses

import pytest
import torch

from transect.capture.reread import reread
from transect.data import read_table
from transect.decide import SequenceStatistic, certify_sequences, threshold_for_fpr
from transect.errors import InputError, MismatchError, ModelError, SiteError
from transect.intervene import Alarm, monitor
from transect.linear.origin import Origin
from transect.models.template import template_hash
from transect.study.score import score_texts
from transect.testing import tiny, tiny_chat_tokenizer

WAYS = {
    "cached": {},
    "uncached": {"use_cache": False},
    "chunks of a prompt": {"prefill_chunk_size": 3},
    "chunks as long as the prompt": {"prefill_chunk_size": 7},
    "static cache": {"cache_implementation": "static"},
    "two of each prompt, sampled": {"num_return_sequences": 2, "do_sample": True},
    "some rows end early": {"do_sample": True, "temperature": 5.0, "eos_token_id": list(range(2, 384, 3)), "max_new_tokens": 12},
}


def offline(model, run, out, readout):
    """The scores of the finished rows, each read alone, in the order of the mask."""
    acts = reread(model, [out[row][run.mask[row]].tolist() for row in range(len(out))], sites=readout.origin.site, tokens="all")
    return readout.scores(acts[readout.origin.site])


def check_equal(model, run, out, probes):
    assert run.mask.shape == out.shape
    for name, readout in probes.items():
        got, expected = run.scores[name][run.mask], offline(model, run, out, readout)
        known = ~torch.isnan(got)
        assert torch.allclose(got[known], expected[known], rtol=1e-5, atol=1e-5)
        assert int(known.sum()) == run.n_scored
    assert torch.equal(run.scored, ~torch.isnan(run.scores[next(iter(probes))]))


# transformers cuts prompts into chunks, and keeps static caches, for attention alone.
ONLY_ATTENTION = {"chunks of a prompt", "chunks as long as the prompt", "static cache"}
CASES = [(family, way) for family in ("llama", "gpt2", "gemma3") for way in WAYS]
CASES += [(family, way) for family in ("qwen3", "mamba", "mamba2", "qwen3_next") for way in WAYS if way not in ONLY_ATTENTION]


@pytest.mark.parametrize(("family", "way"), CASES)
def test_scores_are_those_of_the_finished_text(family, way, probe, inputs, generate):
    model = tiny(family)
    sites = {"a": "layers[1]", "b": "layers[1]", "c": "layers[2].in", "d": "final_norm"}
    probes = {name: probe(site, seed=seed, model=model) for seed, (name, site) in enumerate(sites.items())}
    given = inputs(model)
    torch.manual_seed(1)
    with monitor(model, probes) as watch:
        out = generate(model, given, **WAYS[way])
    (run,) = watch.runs
    check_equal(model, run, out, probes)
    assert torch.equal(torch.where(run.ids < 0, out, run.ids), out)
    assert run.prompt_length == given["input_ids"].shape[1]
    padding = given["attention_mask"].repeat_interleave(len(out) // len(given["input_ids"]), 0) == 0
    assert torch.equal(~run.mask[:, : run.prompt_length], padding)
    # What generate never reads is the last column, and that only.
    assert torch.equal(run.mask & ~run.scored, torch.nn.functional.pad(run.mask[:, -1:], (out.shape[1] - 1, 0)))


def test_rows_that_end_early_are_masked_after_their_end(llama, probe, inputs, generate):
    torch.manual_seed(1)
    with monitor(llama, probe()) as watch:
        out = generate(llama, inputs(llama), **WAYS["some rows end early"])
    run, ends = watch.runs[0], WAYS["some rows end early"]["eos_token_id"]
    generated = out[:, run.prompt_length :]
    lengths = run.mask[:, run.prompt_length :].sum(1).tolist()
    assert len(set(lengths)) > 1, "the setting must end rows at different places"
    for row, length in enumerate(lengths):
        ended = [at for at, token in enumerate(generated[row].tolist()) if token in ends]
        assert length == (ended[0] + 1 if ended else generated.shape[1])


@pytest.mark.parametrize("family", ["llama", "rwkv"])
def test_one_row_alone_equals_score_texts(family, probe, generate):
    model = tiny(family)
    readout = probe(model=model)
    text = "The city of Lima"
    given = {"input_ids": torch.tensor([model.tokenizer(text)["input_ids"]])}
    with monitor(model, readout) as watch:
        generate(model, given)
    expected = score_texts(readout, model, read_table([text]), per_token=True).scores
    n = given["input_ids"].shape[1]
    assert torch.allclose(watch.scores["probe"][0, :n], expected, atol=1e-5, rtol=0)


def test_a_row_in_a_ragged_batch_scores_as_it_does_alone(llama, probe, inputs, generate):
    prompts = ["The city of Paris is", "Lima"]
    with monitor(llama, probe()) as together:
        generate(llama, inputs(llama, prompts))
    for row, prompt in enumerate(prompts):
        with monitor(llama, probe()) as alone:
            generate(llama, inputs(llama, [prompt]))
        expected = alone.scores["probe"][0]
        assert torch.allclose(together.scores["probe"][row, -len(expected) :], expected, atol=1e-5, equal_nan=True, rtol=0)


@pytest.mark.parametrize("side", ["left", "right"])
def test_plain_forward_passes(llama, probe, inputs, side):
    given = inputs(llama, side=side)
    readout = probe()
    with monitor(llama, readout) as watch, torch.no_grad():
        llama.module(**given)
        llama.module(input_ids=given["input_ids"][:1])
    first, second = watch.runs
    assert torch.equal(first.mask, given["attention_mask"] > 0)
    assert first.kind == "forward"
    if side == "right":
        check_equal(llama, first, given["input_ids"], {"probe": readout})
    assert second.scores["probe"].shape == (1, given["input_ids"].shape[1])
    assert watch.n_scored == first.n_scored + second.n_scored


def test_a_loop_of_ones_own_with_a_cache_is_one_run(llama, probe):
    from transformers import DynamicCache

    ids, readout = torch.tensor([llama.tokenizer("Water boils at one")["input_ids"]]), probe()
    cache = DynamicCache(config=llama.module.config)
    with monitor(llama, readout) as watch, torch.no_grad():
        for at in range(ids.shape[1]):
            llama.module(input_ids=ids[:, at : at + 1], cache=cache, use_cache=True)
    assert len(watch.runs) == 1
    check_equal(llama, watch.runs[0], ids, {"probe": readout})


def test_a_plain_pass_with_gradients_keeps_no_graph(llama, probe, inputs):
    with monitor(llama, probe()) as watch:
        out = llama.module(**inputs(llama))
    assert out.logits.requires_grad
    assert not watch.scores["probe"].requires_grad


def test_a_cache_that_was_given_holds_tokens_that_are_not_read(llama, probe, generate):
    from transformers import DynamicCache

    ids = torch.tensor([llama.tokenizer("Water boils at one hundred degrees")["input_ids"]])
    cache = DynamicCache(config=llama.module.config)
    with torch.no_grad():
        llama.module(input_ids=ids[:, :3], cache=cache, use_cache=True)
    readout = probe()
    with monitor(llama, readout) as watch:
        out = generate(llama, {"input_ids": ids, "cache": cache})
    run = watch.runs[0]
    assert torch.isnan(run.scores["probe"][0, :3]).all()
    assert run.n_unscored == 4
    check_equal(llama, run, out, {"probe": readout})


def test_repeated_calls_are_separate_runs(llama, probe, inputs, generate):
    given = inputs(llama)
    with monitor(llama, probe()) as watch:
        first = generate(llama, given)
        second = generate(llama, inputs(llama, ["Lima"]), max_new_tokens=3)
    assert [run.mask.shape for run in watch.runs] == [first.shape, second.shape]
    assert watch.mask.shape == second.shape
    assert watch.n_scored == sum(run.n_scored for run in watch.runs)


def test_the_last_token_is_scored_when_asked(llama, probe, inputs, generate):
    probes = {"a": probe("layers[1]"), "b": probe("final_norm", seed=3)}
    torch.manual_seed(1)
    with monitor(llama, probes, score_last=True) as watch:
        out = generate(llama, inputs(llama), stopping_criteria=watch.stopping_criteria, **WAYS["some rows end early"])
    run = watch.runs[0]
    assert run.n_unscored == 0
    assert torch.equal(run.ids, out)
    assert torch.equal(run.scored, run.mask)
    check_equal(llama, run, out, probes)


def test_many_classes_have_a_score_each(llama, probe, inputs, generate):
    probes = {"many": probe(k=3), "one": probe(seed=1)}
    with monitor(llama, probes) as watch:
        out = generate(llama, inputs(llama))
    assert watch.scores["many"].shape == (*out.shape, 3)
    run = watch.runs[0]
    expected = offline(llama, run, out, probes["many"])
    assert torch.allclose(watch.scores["many"][run.scored], expected[run.scored[run.mask]], atol=1e-5, rtol=0)


def test_logits_keep_their_bits_and_nothing_is_left(llama, probe, inputs, generate, n_hooks):
    given, state = inputs(llama), torch.get_rng_state()
    settings = {"return_dict_in_generate": True, "output_logits": True}
    before, hooks = generate(llama, given, **settings), n_hooks(llama)
    with monitor(llama, {"a": probe(), "b": probe("layers[0].mlp.out")}, thresholds=0.0):
        during = generate(llama, given, **settings)
    assert all(torch.equal(left, right) for left, right in zip(before.logits, during.logits, strict=True))
    assert n_hooks(llama) == hooks
    assert torch.equal(torch.get_rng_state(), state)


def test_what_another_hook_makes_of_a_value_is_scored(llama, probe, inputs):
    given, readout = inputs(llama, ["Lima"]), probe()
    block = llama.module.get_submodule(llama.structure.blocks[1])

    def double(_module, _args, output):
        return output * 2

    with monitor(llama, readout) as plain, torch.no_grad():
        llama.module(**given)
    with block.register_forward_hook(double), monitor(llama, readout) as watch, torch.no_grad():
        llama.module(**given)
    assert torch.allclose(watch.scores["probe"] - readout.bias, 2 * (plain.scores["probe"] - readout.bias), atol=1e-5, rtol=0)


# Alarms ---------------------------------------------------------------------------------------------------------------------


def test_the_first_crossing_of_each_row_is_an_alarm(llama, probe, inputs, generate):
    given, heard = inputs(llama), []
    with monitor(llama, probe()) as watch:
        generate(llama, given)
    scores = watch.scores["probe"][:, given["input_ids"].shape[1] : -1]
    level = float(scores.median())
    with monitor(llama, probe(), thresholds=level, on_alarm=heard.append) as watch:
        out = generate(llama, given)
    expected = {row: int((values > level).nonzero()[0]) for row, values in enumerate(scores) if (values > level).any()}
    assert {alarm.row: alarm.position - given["input_ids"].shape[1] for alarm in heard} == expected
    assert tuple(heard) == watch.alarms == watch.runs[0].alarms
    for alarm in heard:
        assert alarm.token_id == int(out[alarm.row, alarm.position])
        assert alarm.score == pytest.approx(float(watch.scores["probe"][alarm.row, alarm.position]))
        assert (alarm.probe, alarm.run, alarm.threshold) == ("probe", 0, level)


def test_a_score_at_the_threshold_is_none(llama, probe, inputs, generate):
    given = inputs(llama, ["Lima"])
    with monitor(llama, probe()) as watch:
        generate(llama, given)
    top = float(watch.scores["probe"][0, given["input_ids"].shape[1] : -1].max())
    with monitor(llama, probe(), thresholds=top) as at:
        generate(llama, given)
    with monitor(llama, probe(), thresholds=top - 1e-4) as below:
        generate(llama, given)
    assert (len(at.alarms), len(below.alarms)) == (0, 1)


def test_prompts_are_compared_when_asked_and_padding_never(llama, probe, inputs):
    given = inputs(llama)
    with monitor(llama, probe(), thresholds=-1e9, compare="all") as watch, torch.no_grad():
        llama.module(**given)
    first = given["attention_mask"].argmax(1).tolist()
    assert [(alarm.row, alarm.position) for alarm in sorted(watch.alarms, key=lambda alarm: alarm.row)] == list(enumerate(first))


def test_the_running_mean_is_compared(llama, probe, inputs, generate):
    given = inputs(llama, ["Lima"])
    with monitor(llama, probe()) as watch:
        generate(llama, given)
    start = given["input_ids"].shape[1]
    values = watch.scores["probe"][0, start:-1].double()
    means = values.cumsum(0) / torch.arange(1, len(values) + 1)
    level = float(means.sort().values[-2])
    with monitor(llama, probe(), thresholds=level, statistic="mean") as watch:
        generate(llama, given)
    assert [alarm.position - start for alarm in watch.alarms] == [int(means.argmax())]
    assert watch.alarms[0].score == pytest.approx(float(means.max()))


def crossing(model, probe, given, generate):
    """A level that some rows cross in the middle of a generation, and where each row first does (None: never)."""
    with monitor(model, probe()) as watch:
        generate(model, given)
    start = given["input_ids"].shape[1]
    scores = watch.scores["probe"][:, start:-1]
    level = float(scores.max(1).values.median())
    return level, [int((row > level).nonzero()[0]) if (row > level).any() else None for row in scores]


def test_stop_ends_the_row_after_the_token_of_that_pass(llama, probe, inputs, generate):
    given = inputs(llama)
    level, first = crossing(llama, probe, given, generate)
    assert None in first
    assert any(at is not None for at in first)
    with monitor(llama, probe(), thresholds=level, stop=True) as watch:
        out = generate(llama, given, eos_token_id=2, stopping_criteria=watch.stopping_criteria)
    lengths = watch.runs[0].mask[:, given["input_ids"].shape[1] :].sum(1).tolist()
    # The alarm at a token comes when it is read; the pass that reads it also makes the next one.
    assert lengths == [8 if at is None else at + 2 for at in first]
    assert out.shape == watch.mask.shape


def test_stop_all_ends_every_row(llama, probe, inputs, generate):
    given = inputs(llama)
    level, first = crossing(llama, probe, given, generate)
    with monitor(llama, probe(), thresholds=level, stop="all") as watch:
        out = generate(llama, given, stopping_criteria=watch.stopping_criteria)
    assert out.shape[1] - given["input_ids"].shape[1] == min(at for at in first if at is not None) + 2
    assert watch.mask.shape == out.shape


def test_on_token_sees_every_pass(llama, probe, inputs, generate):
    given, steps = inputs(llama), []
    with monitor(llama, probe(), on_token=steps.append) as watch:
        generate(llama, given)
    assert [step.ids.shape[1] for step in steps] == [given["input_ids"].shape[1]] + [1] * 7
    whole = torch.cat([step.scores["probe"].masked_fill(~step.mask, torch.nan) for step in steps], dim=1)
    assert torch.allclose(whole, watch.scores["probe"][:, :-1], equal_nan=True, rtol=1e-6, atol=1e-8)
    assert torch.equal(watch.latest.scores["probe"], steps[-1].scores["probe"])
    assert watch.latest.start == steps[-1].start


def test_a_callback_that_raises_leaves_no_hook_and_the_scores_so_far(llama, probe, inputs, generate, n_hooks):
    given, hooks = inputs(llama), n_hooks(llama)

    def refuse(alarm: Alarm) -> None:
        raise RuntimeError(f"row {alarm.row}")

    watch = monitor(llama, probe(), thresholds=-1e9, on_alarm=refuse)
    with pytest.raises(RuntimeError, match="row 0"), watch:
        generate(llama, given)
    assert n_hooks(llama) == hooks
    n = given["input_ids"].shape[1]
    assert watch.n_scored == int(given["attention_mask"].sum()) + 3
    assert not torch.isnan(watch.scores["probe"][0, n])


# What must be refused -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"num_beams": 2}, "beam"), ({"num_beams": 2, "do_sample": True}, "beam"), ({"prompt_lookup_num_tokens": 2}, "assisted")],
)
def test_loops_that_cannot_be_followed_are_refused_by_name(llama, probe, inputs, generate, settings, name):
    with pytest.raises(InputError, match=name), monitor(llama, probe()):
        generate(llama, inputs(llama, ["The city of Paris"]), **settings)


def test_an_assistant_is_refused_by_name(llama, probe, inputs, generate):
    with pytest.raises(InputError, match="assisted"), monitor(llama, probe()):
        generate(llama, inputs(llama, ["Lima"]), assistant_model=tiny("llama", seed=1).module)


def test_a_custom_loop_is_refused_by_name(llama, probe, inputs, generate):
    def loop(model, input_ids, **_):
        return model(input_ids=input_ids)

    with pytest.raises(InputError, match="custom_generate"), monitor(llama, probe()):
        generate(llama, inputs(llama, ["Lima"]), custom_generate=loop)


def test_embeddings_are_refused(llama, probe, inputs, generate):
    embeds = torch.zeros(1, 3, 16)
    with pytest.raises(InputError, match="inputs_embeds"), monitor(llama, probe()):
        generate(llama, {"inputs_embeds": embeds})


def test_nothing_scored_is_an_error_that_names_the_site(llama, probe):
    with pytest.raises(SiteError, match=r"layers\[1\] scored no token"), monitor(llama, probe()):
        pass
    with pytest.raises(SiteError, match="1 times outside"), monitor(llama, probe()):
        llama.backbone(input_ids=torch.tensor([[1, 20]]))


def test_a_site_that_generation_never_runs_is_an_error(llama, probe, inputs, generate, monkeypatch):
    block = llama.module.get_submodule(llama.structure.blocks[1])
    inner = type(block.mlp)
    mlp = block.mlp
    # The block goes round its MLP, as a module with another path for generation does.
    monkeypatch.setattr(inner, "__call__", lambda self, x: self.forward(x) if self is mlp else torch.nn.Module.__call__(self, x))
    with pytest.raises(SiteError, match=r"layers\[1\]\.mlp\.out did not run"), monitor(llama, probe("layers[1].mlp.out")):
        generate(llama, inputs(llama))


def test_an_error_inside_the_block_is_not_hidden(llama, probe, n_hooks):
    hooks = n_hooks(llama)
    with pytest.raises(KeyboardInterrupt), monitor(llama, probe()):
        raise KeyboardInterrupt
    assert n_hooks(llama) == hooks


@pytest.mark.parametrize("live", [True, False])
def test_nan_names_row_position_and_site(llama, probe, inputs, generate, live, n_hooks):
    given, hooks = inputs(llama), n_hooks(llama)
    block = llama.module.get_submodule(llama.structure.blocks[0])

    def spoil(_module, _args, output):
        if output.shape[1] == 1:
            output = output.clone()
            output[2] = torch.nan
        return output

    n = given["input_ids"].shape[1]
    with (
        pytest.raises(ModelError, match=rf"layers\[1\]: run 0, row 2, position {n} "),
        block.register_forward_hook(spoil),
        monitor(llama, {"a": probe("layers[0].in"), "b": probe()}, thresholds=1e9 if live else None),
    ):
        generate(llama, given)
    assert n_hooks(llama) == hooks


def test_nan_in_padding_matters_to_nobody(llama, probe, inputs):
    given = inputs(llama)
    block = llama.module.get_submodule(llama.structure.blocks[1])

    def spoil(_module, _args, output):
        return output.masked_fill(given["attention_mask"][..., None] == 0, torch.nan)

    with block.register_forward_hook(spoil), monitor(llama, probe("layers[1]"), thresholds=1e9, compare="all") as watch, torch.no_grad():
        llama.module(**given)
    assert watch.n_scored == int(given["attention_mask"].sum())


def test_a_probe_of_another_model_is_refused_unless_forced(llama, probe, inputs, generate):
    other = probe(model=tiny("llama", seed=1))
    with pytest.raises(MismatchError, match="'truth': this object was fitted on model"):
        monitor(llama, {"truth": other})
    with monitor(llama, {"truth": other}, force=True) as watch:
        generate(llama, inputs(llama))
    assert watch.n_scored > 0


def test_a_template_that_changed_since_the_fit_is_refused_by_name(probe):
    model = tiny("llama")
    model = dataclasses.replace(model, tokenizer=tiny_chat_tokenizer())
    fitted = probe(model=model, chat=True, chat_template=template_hash(model.tokenizer))
    monitor(model, fitted)
    model.tokenizer.chat_template = model.tokenizer.chat_template.replace("<turn>", "<turn> ")
    with pytest.raises(MismatchError, match="chat template"):
        monitor(model, fitted)
    monitor(model, fitted, force=True)


def test_another_width_is_refused(llama, probe, inputs, generate):
    with pytest.raises(MismatchError, match="read width 8, the model has 16"), monitor(llama, probe(width=8)):
        generate(llama, inputs(llama))
    with pytest.raises(MismatchError, match="one width"):
        monitor(llama, {"a": probe(width=8), "b": probe()})


def test_models_that_cannot_generate_are_refused(probe):
    with pytest.raises(InputError, match=r"tiny-bert .* cannot generate"):
        monitor(tiny("bert"), probe())
    with pytest.raises(InputError, match="expected a Model"):
        monitor(tiny("llama").module, probe())  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"thresholds": {"truht": 1.0}}, "did you mean 'probe'|no probe 'truht'"),
        ({"thresholds": float("nan")}, "finite number"),
        ({"thresholds": "high"}, "finite number"),
        ({"on_alarm": print}, "need thresholds"),
        ({"stop": True}, "need thresholds"),
        ({"stop": "rows", "thresholds": 1.0}, "'row' or 'all'"),
        ({"statistic": "max", "thresholds": 1.0}, "statistic is one of"),
        ({"compare": "prompt", "thresholds": 1.0}, "compare is one of"),
    ],
)
def test_settings_that_make_no_sense_are_refused(llama, probe, settings, says):
    with pytest.raises(InputError, match=says):
        monitor(llama, probe(), **settings)


def test_probes_that_are_none_are_refused(llama, probe):
    for wrong in ({}, {"a": 1}, [probe()]):
        with pytest.raises(InputError, match="expected a Readout"):
            monitor(llama, wrong)
    nowhere = dataclasses.replace(probe(), origin=Origin())
    with pytest.raises(InputError, match="does not know its site"):
        monitor(llama, nowhere)
    with pytest.raises(InputError, match="names 3"):
        monitor(llama, probe("layers[*]"))
    with pytest.raises(InputError, match="one per class"):
        monitor(llama, probe(k=3), thresholds=1.0)
    with pytest.raises(SiteError, match="layers"):
        monitor(llama, probe("layers[9]"))


def test_a_threshold_for_sequences_is_compared_with_its_own_statistic(llama, probe):
    def certified(name, size=1, warm_up=None):
        statistic = SequenceStatistic(name=name, size=size, warm_up=warm_up)
        return certify_sequences(torch.arange(400.0), [4] * 100, fpr=0.1, bins=1, statistic=statistic)

    with pytest.raises(InputError, match="a monitor does not compute"):
        monitor(llama, probe(), thresholds=certified("rolling", 4))
    with pytest.raises(InputError, match="mean from 3 tokens on, which a monitor does not compute"):
        monitor(llama, probe(), thresholds=certified("mean", warm_up=3), statistic="mean")
    with pytest.raises(InputError, match="pass statistic='mean'"):
        monitor(llama, probe(), thresholds={"probe": certified("mean")})
    with pytest.raises(InputError, match="pass statistic='score'"):
        monitor(llama, probe(), thresholds=certified("max"), statistic="mean")
    monitor(llama, probe(), thresholds=certified("max"))
    monitor(llama, probe(), thresholds=certified("mean"), statistic="mean")


def test_a_promise_about_texts_is_no_promise_about_tokens(llama, probe):
    with pytest.raises(InputError, match="monitor compares every token"):
        monitor(llama, probe(), thresholds=threshold_for_fpr(torch.arange(100.0), fpr=0.1))


def test_a_row_longer_than_was_certified_is_refused(llama, probe, inputs, generate):
    four = certify_sequences(torch.arange(400.0), [4] * 100, fpr=0.1, bins=1)
    with pytest.raises(InputError, match="more than the 4 compared tokens"), monitor(llama, probe(), thresholds=four):
        generate(llama, inputs(llama), max_new_tokens=8, min_new_tokens=8)
    with monitor(llama, probe(), thresholds=four) as watch:
        generate(llama, inputs(llama), max_new_tokens=5, min_new_tokens=5)  # the last one is never read
    assert watch.n_scored > 0


@pytest.mark.parametrize("statistic", ["score", "mean"])
def test_beyond_its_horizon_a_certificate_is_not_compared(llama, probe, inputs, generate, statistic):
    with monitor(llama, probe()) as watch:
        generate(llama, inputs(llama), max_new_tokens=8, min_new_tokens=8)
    start = watch.runs[0].prompt_length
    scores = watch.scores["probe"][:, start:-1].double()
    compared = scores if statistic == "score" else scores.cumsum(1) / torch.arange(1, scores.shape[1] + 1)
    early, late = compared[:, :2].max(), compared[:, 2:].max()
    name = {"score": "max", "mean": "mean"}[statistic]
    made = certify_sequences(torch.arange(800.0), [8] * 100, fpr=0.1, bins=1, statistic=SequenceStatistic(name=name))
    low = float(min(early, late)) - 1e-3  # crossed early and late
    for horizon, latest in ((None, 8), (2, 2)):
        certificate = dataclasses.replace(made, threshold=low, horizon=horizon)
        with monitor(llama, probe(), thresholds=certificate, statistic=statistic) as again:
            generate(llama, inputs(llama), max_new_tokens=8, min_new_tokens=8)
        expected = {
            (row, start + int((compared[row, :latest] > low).nonzero()[0]))
            for row in range(len(compared))
            if (compared[row, :latest] > low).any()
        }
        assert {(alarm.row, alarm.position) for alarm in again.alarms} == expected
    assert float(late) > low


def test_a_criterion_that_was_not_passed_is_an_error(llama, probe, inputs, generate):
    for settings in ({"thresholds": 1e9, "stop": True}, {"score_last": True}):
        with pytest.raises(InputError, match="stopping_criteria=watch"), monitor(llama, probe(), **settings):
            generate(llama, inputs(llama))
    with pytest.raises(InputError, match="nothing to stop"), monitor(llama, probe(), thresholds=1e9, stop=True):
        llama.module(**inputs(llama))


def test_a_threshold_that_no_token_meets_is_an_error(llama, probe, inputs):
    with pytest.raises(InputError, match="no token was compared"), monitor(llama, probe(), thresholds=0.0):
        llama.module(**inputs(llama))


def test_a_monitor_is_used_once_and_has_no_scores_before(llama, probe, inputs, generate):
    watch = monitor(llama, probe())
    with watch:
        with pytest.raises(InputError, match="nothing was run"):
            watch.scores  # noqa: B018 - asking is what fails
        generate(llama, inputs(llama))
    with pytest.raises(InputError, match="used already"), watch:
        pass


def test_two_monitors_at_once_and_a_capture_inside(llama, probe, inputs, generate):
    from transect.capture import capture

    with monitor(llama, probe()) as outer, monitor(llama, probe("layers[2]", seed=1)) as inner:
        generate(llama, inputs(llama))
        capture(llama, ["Lima"], sites="layers[1]")
    assert len(outer.runs) == len(inner.runs) == 1
