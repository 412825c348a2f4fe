"""The theory table tells layers apart."""

import math

import pytest

from transect.errors import InputError
from transect.mixers.models.kinds import layer_kinds
from transect.study.mixers_theory import theory_table


def test_linear_attention_grows_with_the_text_and_a_delta_rule_does_not():
    head, rows = theory_table(["linearattention", "deltanet", "attention"], inputs=20)
    growth = {row[0]: row[head.index("state growth")] for row in rows}
    assert float(growth["linearattention"]) == pytest.approx(2, abs=0.1)
    assert float(growth["deltanet"]) < 1.2
    assert growth["attention"] == "grows with the text"
    assert rows[2][head.index("interaction rank")] == "20, 20"


def test_steps_and_memories_tell_layers_apart():
    head, rows = theory_table(["linearattention", "hgrn2", "lru", "attention"], inputs=4)
    table = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert (table["linearattention"]["step norm"], table["linearattention"]["lowest eigenvalue"]) == ("1.000", "1.000")
    assert 0 < float(table["hgrn2"]["lowest eigenvalue"]) < float(table["hgrn2"]["step norm"]) < 1
    assert list(table["lru"].values())[1:6] == ["-"] * 5
    assert 0 < float(table["lru"]["recovery error"]) < 1
    assert [table["attention"][name] for name in head[4:]] == ["-"] * 3


def test_every_layer_has_a_row():
    small = {"mamba2": {"head_k_dim": 4}, "loglinearmamba2": {"head_k_dim": 4}}
    kinds = {kind: name for name, kind in layer_kinds().items()}
    head, rows = theory_table([{"kind": name, **small.get(name, {})} for name in kinds.values()], hidden_size=8, tokens=4, inputs=3)
    for row in rows:
        for name, cell in zip(head[2:], row[2:], strict=True):
            assert cell in ("-", "grows with the text") or math.isfinite(float(cell)), (row[0], name)
        assert row[-1] == "-" or 0 <= float(row[-1]) < 1.05, row


def test_a_state_too_large_to_differentiate_is_said():
    head, rows = theory_table([{"kind": "gla", "head_k_dim": 65}], hidden_size=32, num_heads=1, tokens=2, inputs=2)
    assert rows[0][head.index("step norm")] == "too large"


def test_an_unknown_layer_is_named():
    with pytest.raises(InputError, match="deltanet"):
        theory_table(["deltanett"])
