"""What these tests share: tiny models, random probes, and generation in one word."""

import pytest
import torch

from transect.linear import Readout
from transect.linear.origin import Origin
from transect.testing import tiny

PROMPTS = ("The city of Paris is", "Lima", "Water boils at one hundred degrees")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Tiny models gain nothing from more threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def own_random_state():
    """Sampling in a test draws from a state of the test's own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture(scope="session")
def llama():
    return tiny("llama")


@pytest.fixture(scope="session")
def probe():
    """A random probe at a site; it belongs to `model` where one is given."""

    def make(site="layers[1]", *, seed=0, k=1, width=16, model=None, **settings):
        draw = torch.Generator().manual_seed(seed)
        classes = None if k == 1 else tuple(range(k))
        origin = Origin(site=site, tokens="last", model=None if model is None else model.fingerprint, settings=settings)
        weight, bias = torch.randn(k, width, generator=draw), torch.randn(k, generator=draw)
        return Readout(weight=weight, bias=bias, classes=classes, origin=origin)

    return make


@pytest.fixture(scope="session")
def inputs():
    """Token ids and mask of ragged prompts, padded on one side."""

    def make(model, prompts=PROMPTS, side="left"):
        model.tokenizer.padding_side = side
        encoded = model.tokenizer(list(prompts), return_tensors="pt", padding=True)
        return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}

    return make


@pytest.fixture(scope="session")
def generate():
    """Eight new tokens, greedily and never ending early, unless told otherwise."""

    def run(model, given, **settings):
        plain = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
        return model.module.generate(**given, **{**plain, **settings})

    return run


@pytest.fixture(scope="session")
def n_hooks():
    """How many forward hooks a model has."""

    def count(model):
        return sum(len(child._forward_hooks) + len(child._forward_pre_hooks) for child in model.module.modules())

    return count
