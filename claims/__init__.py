"""What the papers whose methods we ship claim, measured again at a small scale. `python -m claims` prints the table.

One file per claim. It holds a `CLAIM` and a `run()` that returns a `Result`; a claim that does not reproduce is a finding
and is reported as one.
"""

import dataclasses
import importlib
import pkgutil
from collections.abc import Mapping
from types import ModuleType


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of a paper, and when it counts as reproduced here."""

    paper: str
    says: str
    setting: str
    reproduced_when: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What came out: numbers by name, whether the claim held, and one sentence."""

    numbers: Mapping[str, float]
    reproduced: bool
    sentence: str


def claim_modules() -> list[ModuleType]:
    """Every module of this folder that holds a claim."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    return [importlib.import_module(f"claims.{name}") for name in names]


def all_claims() -> list[Claim]:
    """The claims, in the order of their files."""
    return [module.CLAIM for module in claim_modules()]
