import dataclasses

import matplotlib
import numpy as np
import pytest
from PIL import Image

from transect.report import images
from transect.report.palette import diverging, ink


def test_every_picture_opens_and_is_wide_enough_to_read(tmp_path, report):
    before = dict(matplotlib.rcParams)
    paths = images.write_images(report, tmp_path)
    assert {path.name for path in paths.values()} == {f"{report.metric.name}_by_layer.png", "transfer.png", "scores.png"}
    for path in paths.values():
        with Image.open(path) as picture:
            picture.load()
            assert picture.format == "PNG"
            assert picture.width == round(images.WIDTH * images.DPI)
            assert picture.height >= 300
            assert len(picture.convert("RGB").getcolors(maxcolors=2**24)) > 20
    assert dict(matplotlib.rcParams) == before
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in paths.values()}


def test_the_curve_and_its_intervals_are_those_of_the_report(report):
    axes = images.sites_image(report).axes[0]
    bars = axes.containers[0]
    assert list(bars.lines[0].get_ydata()) == [point.test.value for point in report.by_site]
    lows = [segment[0, 1] for segment in bars.lines[2][0].get_segments()]
    assert lows == pytest.approx([point.test.low for point in report.by_site])
    chance = [line for line in axes.lines if list(line.get_ydata()) == [report.metric.chance] * 2]
    assert len(chance) == 1


@pytest.mark.parametrize(("layers", "numbers"), [(18, 60), (80, 0)])
def test_cells_have_numbers_where_there_is_room(build, layers, numbers):
    axes = images.transfer_image(build.planted(layers=layers)).axes[0]
    assert len(axes.texts) == numbers
    assert axes.images[0].get_array().shape == (3, layers + 2)


def test_missing_data_gives_no_picture(tmp_path, build):
    report = dataclasses.replace(build.planted(), transfer=(), score_histograms=())
    assert list(images.write_images(report, tmp_path)) == ["sites_image"]


def test_dollar_signs_are_not_mathematics(build):
    report = build.planted()
    table = dataclasses.replace(report.data.train, name="a $\\frac{1$ b")
    renamed = dataclasses.replace(report, data=dataclasses.replace(report.data, train=table))
    images.sites_image(renamed).canvas.draw()


def test_the_diverging_scale_is_white_at_chance_and_symmetric():
    assert diverging(0.5, low=0, middle=0.5, high=1) == diverging(0.0, low=-1, middle=0.0, high=1)
    assert diverging(2.0, low=0, middle=0.5, high=1) == diverging(1.0, low=0, middle=0.5, high=1)


@pytest.mark.parametrize("value", np.linspace(0, 1, 41))
def test_numbers_in_cells_have_contrast(value):
    def luminance(colour):
        parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        return sum(
            w * (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4) for w, p in zip((0.2126, 0.7152, 0.0722), parts, strict=True)
        )

    cell = diverging(value, low=0, middle=0.5, high=1)
    bright, dark = sorted((luminance(cell), luminance(ink(cell))), reverse=True)
    assert (bright + 0.05) / (dark + 0.05) >= 4.4  # WCAG asks 4.5 of text of this size; pure black and white cannot do better than 4.58
