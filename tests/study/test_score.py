"""What a probe says of texts, in the form it was fitted in."""

import pytest
import torch

import transect
from transect.errors import InputError
from transect.linear import Origin, Readout
from transect.study import score_texts
from transect.testing import tiny, tiny_chat_tokenizer

TEXTS = ["The river is wide.", "No stone is soft."]


@pytest.fixture(scope="module")
def model():
    return transect.load(tiny("llama").module, tokenizer=tiny_chat_tokenizer())


def readout_of(model, *, chat):
    weight = torch.randn(1, 16, generator=torch.Generator().manual_seed(0))
    origin = Origin(site="layers[1]", tokens="last", model=model.fingerprint, settings={"chat": chat})
    return Readout(weight=weight, bias=torch.zeros(1), origin=origin)


@pytest.mark.parametrize("asked", [False, True])
def test_a_probe_of_chats_is_scored_on_chats_without_being_asked(model, asked):
    readout = readout_of(model, chat=True)
    scored = score_texts(readout, model, transect.read_table(TEXTS), chat=asked)
    in_chat = readout.scores(transect.capture(model, TEXTS, sites="layers[1]", chat=True)["layers[1]"])
    plain = readout.scores(transect.capture(model, TEXTS, sites="layers[1]")["layers[1]"])
    torch.testing.assert_close(scored.scores, in_chat, rtol=0, atol=1e-6)
    assert (scored.scores - plain).abs().min() > 1e-3


def test_a_probe_of_plain_texts_is_scored_on_plain_texts(model):
    readout = readout_of(model, chat=False)
    scored = score_texts(readout, model, transect.read_table(TEXTS))
    torch.testing.assert_close(
        scored.scores, readout.scores(transect.capture(model, TEXTS, sites="layers[1]")["layers[1]"]), rtol=0, atol=1e-6
    )


def test_a_probe_that_does_not_know_where_it_reads_is_refused(model):
    with pytest.raises(InputError, match="does not know its site"):
        score_texts(Readout(weight=torch.zeros(1, 16), bias=torch.zeros(1)), model, transect.read_table(TEXTS))
