"""The shipped check: every family passes, and each broken monitor fails with the clause that it breaks."""

import contextlib
import dataclasses
from types import SimpleNamespace

import pytest
import torch

from transect.intervene import monitor
from transect.testing import check_monitor, tiny

PROMPTS = ["The city of Paris is", "Lima", "Yes: it is"]


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3", "mamba"])
def test_families(family):
    check_monitor(tiny(family), PROMPTS)


def test_rwkv_which_cannot_generate_from_batches():
    check_monitor(tiny("rwkv"), PROMPTS, padded=False)


def altered(change=None, *, before=None, after=None):
    """A monitor whose scores are changed, or that does something of its own before or after."""

    @contextlib.contextmanager
    def run(model, probes, **options):
        if before is not None:
            before(model)
        seen = SimpleNamespace(scores={}, mask=None, alarms=())
        try:
            with monitor(model, probes, **options) as watch:
                yield seen
        finally:
            if watch.runs:
                seen.scores = {name: (change or (lambda x, _: x))(values, watch.mask) for name, values in watch.scores.items()}
                seen.mask, seen.alarms = watch.mask, watch.alarms
            if after is not None:
                after(model)

    return run


def shifts(values, _mask):
    return values.roll(1, dims=1)


def forgets_padding(values, mask):
    return torch.where(mask, values, 0.0)


def invents_the_last(values, _mask):
    values = values.clone()
    values[:, -1] = values[:, -2]
    return values


def loses_a_token(values, _mask):
    values = values.clone()
    values[:, -2] = torch.nan
    return values


def a_little_off(values, _mask):
    return values + 1e-3


def leaves_a_hook(model):
    model.module.register_forward_hook(lambda *_: None)


def draws(_model):
    torch.rand(1)


def trains(model):
    model.module.training = True


def changes_a_weight(model):
    with torch.no_grad():
        next(model.module.parameters()).mul_(1.001)


def sets_generation(model):
    model.module.generation_config.top_k = 7


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (altered(shifts), "scores are missing|largest difference"),
        (altered(forgets_padding), "too many"),
        (altered(invents_the_last), "too many"),
        (altered(loses_a_token), "scores are missing"),
        (altered(a_little_off), "largest difference is 0.001"),
        (altered(after=leaves_a_hook), "left a trace: .*hooks"),
        (altered(before=draws), "random state"),
        (altered(after=trains), "training"),
        (altered(after=changes_a_weight), "changed"),
        (altered(after=sets_generation), "generation_config"),
    ],
    ids=lambda value: "" if isinstance(value, str) else None,
)
def test_broken_monitors_fail(broken, says):
    with pytest.raises(AssertionError, match=says):
        check_monitor(tiny("llama"), PROMPTS, monitor=broken)


def test_a_monitor_that_changes_logits_fails(llama):
    @contextlib.contextmanager
    def steers(model, probes, **options):
        head = model.module.lm_head
        with head.register_forward_hook(lambda _module, _args, output: output + 1e-6), monitor(model, probes, **options) as watch:
            yield watch

    with pytest.raises(AssertionError, match="bits of the logits"):
        check_monitor(llama, PROMPTS, monitor=steers)


def test_a_monitor_that_keeps_its_hooks_after_an_error_fails():
    @contextlib.contextmanager
    def leaks(model, probes, **options):
        handle = model.module.register_forward_hook(lambda *_: None)
        with monitor(model, probes, **options) as watch:
            yield watch
        handle.remove()

    with pytest.raises(AssertionError, match="Ctrl-C while tokens come left a trace"):
        check_monitor(tiny("llama"), PROMPTS, monitor=leaks)


def test_a_monitor_that_is_silent_about_nothing_fails(llama):
    @contextlib.contextmanager
    def silent(model, probes, **options):
        with contextlib.suppress(Exception), monitor(model, probes, **options) as watch:
            yield watch

    with pytest.raises(AssertionError, match="raised no error"):
        check_monitor(llama, PROMPTS, monitor=silent)


def test_a_monitor_whose_alarms_are_late_fails(llama):
    @contextlib.contextmanager
    def late(model, probes, **options):
        seen = SimpleNamespace(alarms=())
        with monitor(model, probes, **options) as watch:
            yield seen
        seen.scores, seen.mask = watch.scores, watch.mask
        seen.alarms = [dataclasses.replace(alarm, position=alarm.position + 1) for alarm in watch.alarms]

    with pytest.raises(AssertionError, match="alarms"):
        check_monitor(llama, PROMPTS, monitor=late)
