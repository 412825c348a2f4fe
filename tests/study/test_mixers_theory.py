"""The theory table tells layers apart."""

import pytest

from transect.errors import InputError
from transect.study.mixers_theory import theory_table


def test_linear_attention_grows_with_the_text_and_a_delta_rule_does_not():
    head, rows = theory_table(["linearattention", "deltanet", "attention"], inputs=20)
    growth = {row[0]: row[head.index("state growth")] for row in rows}
    assert float(growth["linearattention"]) == pytest.approx(2, abs=0.1)
    assert float(growth["deltanet"]) < 1.2
    assert growth["attention"] == "grows with the text"
    assert rows[2][head.index("interaction rank")] == "20, 20"


def test_an_unknown_layer_is_named():
    with pytest.raises(InputError, match="deltanet"):
        theory_table(["deltanett"])
