import dataclasses
import json
import re
from html.parser import HTMLParser

import pytest

from transect.measure import Estimate, Verdict
from transect.report import render_html


class Page(HTMLParser):
    """What a browser would load, run and show."""

    def __init__(self, text):
        super().__init__()
        self.links, self.scripts, self.tags, self.text, self.inside = [], [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag
        self.links += [value for name, value in attrs if name in ("src", "href", "action", "data", "poster", "srcset")]
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = "" if tag in ("script", "style") else self.inside

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data
        elif self.inside != "style":
            self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def page(report):
    return Page(render_html(report))


def test_the_page_loads_nothing(report, page):
    text = render_html(report)
    style = "".join(re.findall(r"<style>.*?</style>", text, flags=re.DOTALL))
    assert page.links == []
    assert "url(" not in style
    assert "@import" not in style
    assert not [tag for tag, _ in page.tags if tag in ("link", "iframe", "img", "object", "embed", "base")]
    policy = next(attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")


def test_plotly_is_there_once_and_the_figures_are_json(page):
    assert sum("plotly.js v" in script for script in page.scripts) == 1
    figures = [json.loads(script) for script in page.scripts if script.startswith('{"data"')]
    assert len(figures) == 2
    assert all(figure["data"] for figure in figures)


def test_users_text_is_shown_and_never_run(build, page):
    assert build.NASTY.split(" & ")[0] in page.words
    assert not [script for script in page.scripts if "alert" in script and "plotly.js v" not in script]


def test_users_names_cannot_leave_the_script_they_are_in(build):
    report = build.planted()
    renamed = dataclasses.replace(
        report.score_histograms[0], table="</script><img src=http://x>", counts={"<b>": (1,) * 32, "&": (2,) * 32}
    )
    page = Page(render_html(dataclasses.replace(report, score_histograms=(renamed,))))
    assert page.links == []
    assert len(page.scripts) == 4
    figure = next(json.loads(script) for script in page.scripts if '"barmode"' in script[:200_000] and script.startswith('{"data"'))
    assert [trace["name"] for trace in figure["data"]] == ["&lt;b&gt;", "&amp;"]  # plotly would read tags as formatting


def test_the_order_is_from_the_verdict_to_the_provenance(report, page):
    places = [page.words.index(report.verdict.text.split("\n")[0])]
    headings = [
        "more than surface",
        "Where in the model",
        "Does it transfer",
        "How the scores",
        "Most wrong",
        "Leakage",
        "How the verdict",
        "Provenance",
    ]
    places += [page.words.index(heading) for heading in headings]
    assert places == sorted(places)


def test_the_curve_draws_what_the_report_says(report, page):
    figure = next(json.loads(script) for script in page.scripts if '"error_y"' in script and script.startswith('{"data"'))
    probe = next(trace for trace in figure["data"] if trace.get("name") == "probe")
    assert probe["y"] == [point.test.value for point in report.by_site]
    highs = [value + up for value, up in zip(probe["y"], probe["error_y"]["array"], strict=True)]
    assert highs == pytest.approx([point.test.high for point in report.by_site])
    chance = [
        shape for shape in figure["layout"]["shapes"] if shape.get("xref") == "paper" and shape["y0"] == shape["y1"] == report.metric.chance
    ]
    assert len(chance) == 1
    low, high = figure["layout"]["yaxis"]["range"]
    assert low < min(point.band_low for point in report.by_site)
    assert high > max(point.band_high for point in report.by_site)


def heat_cells(page):
    return [attrs for tag, attrs in page.tags if tag == "td" and "background:" in (attrs.get("style") or "")]


def test_the_heat_map_has_a_cell_for_every_transfer(report, page):
    cells = heat_cells(page)
    assert len(cells) == len(report.transfer)
    assert sum(attrs.get("class") == "chosen" for attrs in cells) == 3
    assert "dense" not in [attrs.get("class") for tag, attrs in page.tags if tag == "table"]


def test_many_sites_lose_the_numbers_in_cells_but_not_the_cells(build):
    report = build.planted(layers=80)
    page = Page(render_html(report))
    assert len(heat_cells(page)) == len(report.transfer)
    assert "heat dense" in [attrs.get("class") for tag, attrs in page.tags if tag == "table"]
    named = [attrs["title"] for tag, attrs in page.tags if tag == "th" and "title" in attrs]
    assert len(named) == 82


def test_a_cell_that_was_not_measured_is_marked(build):
    report = build.planted()
    page = Page(render_html(dataclasses.replace(report, transfer=report.transfer[:-1])))
    assert [attrs["title"] for _, attrs in page.tags if attrs.get("class") == "none"] == ["not measured"]


def test_what_is_missing_is_left_out(build):
    report = build.planted()
    little = dataclasses.replace(
        report,
        baselines={},
        transfer=(),
        score_histograms=(),
        most_wrong=(),
        probes_compared=(),
        leakage={},
        verdict=Verdict(readable=None, beyond_surface=None, transfers={}, rules=(), text="Too few rows to say."),
        by_site=tuple(dataclasses.replace(point, untrained=None, band_low=None, band_high=None) for point in report.by_site),
    )
    words = Page(render_html(little)).words
    assert "unclear" in words
    assert "Does it transfer?" not in words
    assert "Most wrong" not in words


def test_a_score_without_an_interval_is_shown_without_one(build):
    report = build.planted()
    bare = tuple(dataclasses.replace(point, test=Estimate.bare(point.test.value)) for point in report.by_site)
    text = render_html(dataclasses.replace(report, by_site=bare, test=dataclasses.replace(report.test, auroc=Estimate.bare(0.75))))
    assert not re.search(r"\bnan\b", text.split("<script")[0].lower())
    assert "0.750" in Page(text).words


def test_links_to_files_stay_in_the_folder(build):
    page = Page(render_html(dataclasses.replace(build.planted(), files={"page": "a b#c.html"}, stress="stress.json")))
    assert page.links == ["stress.json", "a%20b%23c.html"]
