"""An mkdocs hook that writes the reference pages from the package itself, and fails on a public name without a docstring."""

import importlib
import inspect
import pkgutil
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

import transect


def _rooms() -> list[str]:
    found = pkgutil.walk_packages(transect.__path__, "transect.")
    return ["transect", "transect.errors", *(module.name for module in found if module.ispkg and module.name.count(".") == 1)]


def _public(room: str) -> list[tuple[str, object]]:
    module = importlib.import_module(room)
    names = getattr(module, "__all__", None) or [name for name, value in vars(module).items() if getattr(value, "__module__", "") == room]
    pairs = [(name, getattr(module, name)) for name in sorted(names)]
    return [(name, value) for name, value in pairs if not inspect.ismodule(value)]


def _first_line(value: object) -> str:
    return (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")


def undocumented() -> list[str]:
    """Public names whose docstring is missing, and public methods of public classes too."""
    missing = []
    for room in _rooms():
        for name, value in _public(room):
            if not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            if not inspect.getdoc(value):
                missing.append(f"{room}.{name}")
            if inspect.isclass(value) and value.__module__.startswith("transect"):
                members = [(key, member) for key, member in vars(value).items() if inspect.isfunction(member) and not key.startswith("_")]
                missing += [f"{room}.{name}.{key}" for key, member in members if not inspect.getdoc(member)]
    return missing


def reference_page() -> str:
    """The Python API, a heading per room and an entry per public name."""
    lines = ["# Python API", ""]
    for room in _rooms():
        pairs = [pair for pair in _public(room) if inspect.isclass(pair[1]) or inspect.isfunction(pair[1])]
        lines += [f"## `{room}`", "", _first_line(importlib.import_module(room)), ""]
        if room == "transect":
            lines += [f"- `transect.{name}`: {_first_line(value)}" for name, value in pairs] + [""]
            continue
        for name, _ in pairs:
            lines += [f"::: {room}.{name}", ""]
    return "\n".join(lines)


def methods_page() -> str:
    """A row per fitter, made from its module's docstring."""
    from transect.testing import all_fitters

    lines = [
        "# Methods",
        "",
        "Every probe is a scikit-learn estimator; it takes numpy arrays and torch tensors and leaves a `Readout`.",
        "",
    ]
    lines += ["| method | what it is | settings |", "|---|---|---|"]
    for fitter in all_fitters():
        settings = ", ".join(f"`{name}={parameter.default!r}`" for name, parameter in inspect.signature(fitter).parameters.items())
        lines.append(f"| [`{fitter.__name__}`](reference.md) | {_first_line(fitter)} | {settings} |".replace("|z|", "abs(z)"))
    return "\n".join(lines) + "\n"


def claims_page() -> str:
    """A row per claim of a paper that is measured here."""
    sys.path.insert(0, str(Path(__file__).parent.parent))  # claims/ is not installed
    import claims

    lines = ["# Claims", "", "What the papers whose methods we ship say, and how `make claims` measures it here.", ""]
    lines += ["| paper | claim | setting here | counts as reproduced |", "|---|---|---|---|"]
    lines += [f"| {claim.paper} | {claim.says} | {claim.setting} | {claim.reproduced_when} |" for claim in claims.all_claims()]
    return "\n".join(lines) + "\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, or fail."""
    missing = undocumented()
    if missing:
        raise PluginError("public names without a docstring: " + ", ".join(missing))
    for uri, content in {"reference.md": reference_page(), "methods.md": methods_page(), "claims.md": claims_page()}.items():
        files.append(File.generated(config, uri, content=content))
    return files
