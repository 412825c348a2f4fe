import json

import pytest

from transect.errors import InputError
from transect.measure import Estimate


def test_json_round_trip_keeps_everything_and_writes_no_nan():
    full = Estimate(0.9, 0.8, 0.95, n=10, groups=5, method="made up")
    bare = Estimate.bare(0.9, n=3)
    assert Estimate.from_json(json.loads(json.dumps(full.to_json()))) == full
    assert full.to_json()["low"] == 0.8
    text = json.dumps(bare.to_json(), allow_nan=False)
    back = Estimate.from_json(json.loads(text))
    assert back.value == 0.9 and not back.has_interval and str(back) == "0.90"


def test_a_bare_estimate_excludes_nothing():
    assert not Estimate.bare(0.9).excludes(0.5)
    assert Estimate(0.9, 0.8, 1.0).excludes(0.5) and not Estimate(0.6, 0.4, 0.8).excludes(0.5)


@pytest.mark.parametrize("arguments", [(0.5, 0.6, 0.4), (0.5, 0.4, 0.6, 95)])
def test_refuses_what_makes_no_sense(arguments):
    with pytest.raises(InputError, match=r"low <= high|between 0 and 1"):
        Estimate(*arguments)
