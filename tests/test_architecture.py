"""The shape of the package: which room may import which, what is public, and habits that a linter does not know."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import transect

SOURCE = Path(transect.__file__).parent
ROOMS = (
    "errors", "_files", "_progress", "sites", "models", "data", "capture", "linear", "probes", "measure", "decide", "mixers", "intervene", "report",
    "study", "cli",
)  # fmt: skip
BLIND_TO_MODELS = {"linear", "probes", "measure", "decide"}
FILES = sorted(SOURCE.rglob("*.py"))
PACKAGES = sorted({module.name for module in pkgutil.walk_packages([str(SOURCE)], "transect.") if module.ispkg} | {"transect"})


def _room(dotted: str) -> str | None:
    parts = dotted.split(".")
    return parts[1] if parts[0] == "transect" and len(parts) > 1 else None


def _imports(path: Path) -> list[tuple[int, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "transect" else [node.module or ""]
            found += [(node.lineno, name) for name in names]
            assert node.level == 0, f"{path}:{node.lineno}: relative import; write the whole name"
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_data_flows_one_way_through_the_rooms(path):
    here = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if here in ("__init__", "testing"):
        return
    for line, name in _imports(path):
        room = _room(name)
        if room is None:
            continue
        assert room in ROOMS, f"{path}:{line} imports {name}, which is no room below the shipped checks"
        assert ROOMS.index(room) <= ROOMS.index(here), f"{path}:{line} imports {name}, a room below {here}"
        if here in BLIND_TO_MODELS:
            assert room not in {"sites", "models", "data", "capture"}, f"{path}:{line} imports {name}, but {here} must never touch a model"


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_in_all_exists_once_and_is_documented(name):
    module = importlib.import_module(name)
    public = list(module.__all__)  # ruff (RUF022) sees to its order
    assert len(public) == len(set(public)), f"{name}.__all__ names something twice"
    for attribute in public:
        value = getattr(module, attribute)
        if callable(value):
            assert value.__doc__, f"{name}.{attribute} has no docstring"
    assert module.__doc__, f"{name} has no docstring"


def test_star_names_of_the_package_are_few():
    assert set(transect.__all__) <= {
        "Activations", "Model", "Readout", "Table", "capture", "capture_generated", "certify", "decide", "errors", "load", "measure", "mixers", "monitor",
        "probe", "probes", "read_table", "stress", "testing", "untrained",
    }  # fmt: skip


@pytest.mark.parametrize("path", FILES + sorted(Path(__file__).parent.rglob("*.py")), ids=lambda path: path.name)
def test_no_comparison_is_thrown_away(path):
    closeness = {"allclose", "isclose", "equal", "array_equal"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            name = getattr(function, "attr", getattr(function, "id", ""))
            assert name not in closeness, f"{path}:{node.lineno}: the result of {name}(...) is thrown away, so it checks nothing"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_the_package_raises_instead_of_asserting(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        assert not isinstance(node, ast.Assert), (
            f"{path}:{node.lineno}: assert disappears under python -O; raise an error of transect.errors"
        )


def test_import_is_light():
    code = (
        "import time, sys, torch; start = time.process_time(); import transect; spent = time.process_time() - start;"
        "heavy = {'transformers', 'sklearn', 'plotly', 'matplotlib', 'pandas', 'pyarrow', 'scipy'} & set(sys.modules);"
        "print(spent, ','.join(sorted(heavy)))"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split(" ") for _ in range(3)]
    assert {heavy.strip() for _, heavy in runs} == {""}
    assert min(float(seconds) for seconds, _ in runs) < 0.3
