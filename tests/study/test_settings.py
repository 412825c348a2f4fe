import pytest

from transect.errors import InputError
from transect.study import Settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"folds": 1}, "folds must be at least 2"),
        ({"test_fraction": 1.0}, "test_fraction"),
        ({"permutations": 5}, "permutations must be at least 20"),
        ({"level": 95}, "level"),
        ({"controls": ("untraind",)}, "did you mean 'untrained'"),
    ],
)
def test_settings_outside_their_range_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        Settings(**changes)
