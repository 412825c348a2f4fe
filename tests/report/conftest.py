import importlib.util
from pathlib import Path

import pytest


def _planted():
    """The builder beside this file, loaded by its path: test folders are not packages."""
    spec = importlib.util.spec_from_file_location("planted_report", Path(__file__).with_name("planted.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def build():
    """The module that builds planted reports; ``build.planted(kind=...)`` gives one."""
    return _planted()


@pytest.fixture(scope="session", params=["binary", "multiclass", "number"])
def report(request, build):
    return build.planted(kind=request.param)
