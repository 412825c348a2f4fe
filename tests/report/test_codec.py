import dataclasses
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from transect.errors import InputError, StoreError
from transect.measure import Estimate
from transect.report.codec import ABSENT, from_json, to_json


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner:
    value: float
    hidden: Annotated[Estimate | None, ABSENT] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    kind: Literal["a", "b"]
    inner: tuple[Inner, ...]
    by_name: Mapping[str, Inner | None]
    label: str | bool | int | float
    anything: Any = None
    count: int = 3


OUTER = Outer(name="x", kind="b", inner=(Inner(value=1.5),), by_name={"p": Inner(value=2.0), "q": None}, label=True)


def test_a_nested_record_comes_back_equal():
    assert from_json(Outer, to_json(OUTER)) == OUTER


def test_absent_fields_are_left_out_and_other_nones_are_null():
    assert to_json(Inner(value=1.0)) == {"value": 1.0}
    assert to_json(OUTER)["by_name"]["q"] is None


@pytest.mark.parametrize("label", [True, False, 0, 1, 1.0, "1"])
def test_a_label_keeps_its_type(label):
    back = from_json(Outer, to_json(dataclasses.replace(OUTER, label=label))).label
    assert back == label
    assert type(back) is type(label)


def test_numpy_numbers_become_plain_ones():
    value = to_json({"a": np.float32(0.5), "b": np.int64(3), "c": np.bool_(True)})
    assert [type(item) for item in value.values()] == [float, int, bool]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_nan_and_infinity_are_refused_by_path(bad):
    with pytest.raises(InputError, match=r"report\.inner\[0\]\.value is (nan|inf|-inf), expected a finite number"):
        to_json(dataclasses.replace(OUTER, inner=(Inner(value=bad),)))


@pytest.mark.parametrize("bad", [np.zeros(2), {1, 2}, object(), b"x"])
def test_what_json_does_not_have_is_refused_by_path(bad):
    with pytest.raises(InputError, match=r"report\.anything is a \w+, expected"):
        to_json(dataclasses.replace(OUTER, anything=bad))


def test_an_estimate_without_an_interval_has_null_ends_and_nan_again_when_read():
    value = to_json(Estimate.bare(0.7, n=5))
    assert (value["value"], value["low"], value["high"]) == (0.7, None, None)
    assert not from_json(Estimate, value).has_interval


def test_an_estimate_without_a_value_is_refused():
    with pytest.raises(InputError, match="value is nan"):
        to_json(Estimate.bare(math.nan))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 3}, r"report\.name is 3, expected str"),
        ({"kind": "c"}, r"report\.kind is 'c'"),
        ({"count": True}, r"report\.count is True, expected int"),
        ({"count": 1.5}, r"report\.count is 1\.5, expected int"),
        ({"inner": [{"value": "1"}]}, r"report\.inner\[0\]\.value is '1', expected float"),
        ({"inner": {}}, r"report\.inner is \{\}"),
        ({"by_name": {"p": 3}}, r"report\.by_name\.p is 3, expected Inner or null"),
        ({"more": 1}, r"report has the unknown fields \['more'\]"),
    ],
)
def test_what_does_not_fit_is_refused_by_path(change, message):
    with pytest.raises(StoreError, match=message):
        from_json(Outer, to_json(OUTER) | change)


def test_a_missing_field_is_named_and_a_missing_default_is_filled():
    value = to_json(OUTER)
    del value["count"]
    assert from_json(Outer, value).count == 3
    del value["kind"]
    with pytest.raises(StoreError, match=r"lacks the fields \['kind'\]"):
        from_json(Outer, value)
