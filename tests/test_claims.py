"""Every claim says what it measures and when it counts; running them takes minutes and a model, so `make claims` does that."""

import dataclasses
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))  # claims/ is not installed
    import claims

    return claims.claim_modules()


def test_every_file_has_a_claim_and_a_run(modules):
    files = {path.stem for path in (ROOT / "claims").glob("*.py") if not path.name.startswith("_")}
    assert {module.__name__.removeprefix("claims.") for module in modules} == files
    for module in modules:
        fields = dataclasses.asdict(module.CLAIM)
        assert all(isinstance(text, str) and text.strip() for text in fields.values()), module.__name__
        assert callable(module.run), module.__name__


def test_no_two_claims_say_the_same(modules):
    said = [(module.CLAIM.paper, module.CLAIM.says) for module in modules]
    assert len(set(said)) == len(said)
