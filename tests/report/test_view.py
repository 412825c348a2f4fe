import pytest

from transect.report import view


def test_the_chosen_and_the_end_sites_are_named_and_the_names_fit(build):
    for layers in (1, 5, 18, 48, 80, 200):
        sites = build.site_names(layers)
        for chosen in (sites[0], sites[layers // 2], sites[-1]):
            shown = view.ticks(sites, chosen, room=110)
            assert sites.index(chosen) in shown
            assert {0, len(sites) - 1} <= set(shown) or chosen not in (sites[0], sites[-1])
            assert sum(len(view.short_site(sites[position])) + 2 for position in shown) <= 125


@pytest.mark.parametrize(("value", "text"), [(0.0004, "0.000"), (-0.0004, "0.000"), (None, "-"), (1, "1.000")])
def test_numbers(value, text):
    assert view.number(value) == text


def test_the_axis_holds_everything_drawn(build):
    for kind in ("binary", "number"):
        report = build.planted(kind=kind)
        low, high = view.curve_range(report)
        assert low < report.metric.chance
        assert high > 1


def test_transfer_rows_come_in_the_order_of_the_sites(build):
    report = build.planted()
    assert view.sites_of(report) == tuple(point.site for point in report.by_site)
    assert [(row.train, row.test) for row in view.heat_rows(report)] == [
        ("cities", name) for name in ("cities", "neg_cities", "larger_than")
    ]
