"""Every Python snippet of README and docs runs, in the order of its page."""

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _pages():
    for page in PAGES:
        code = "\n".join(SNIPPET.findall(page.read_text(encoding="utf-8")))
        if code:
            marks = [pytest.mark.demo] if '"demo"' in code else []
            yield pytest.param(page, code, id=page.name, marks=marks)


@pytest.mark.parametrize(("page", "code"), list(_pages()))
def test_the_snippets_of_a_page_run(page, code, in_tmp, capsys):
    with torch.random.fork_rng():  # a reader's own code may draw at random, as nn.Linear does
        exec(compile(code, str(page), "exec"), {"__name__": "snippet"})
    assert "Traceback" not in capsys.readouterr().err


def test_pages_that_the_site_lists_exist():
    listed = re.findall(r":\s+([\w-]+\.md)\s*$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    made = {"methods.md", "reference.md", "claims.md"}  # by docs/_reference.py
    assert {name for name in listed if name not in made} == {page.name for page in PAGES[1:]}
