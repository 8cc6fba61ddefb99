"""What ``make chaos`` measures of growth: slopes, rows and the picture."""

import xml.etree.ElementTree as ET

from tests.chaos.growth import MIN_SAMPLES, Sample, bend, per_hour, picture, rows, series


def samples(count: int, values: dict[str, list[float]]) -> list[Sample]:
    return [
        Sample(30.0 * i, {name: each[i] for name, each in values.items() if i < len(each)})
        for i in range(count)
    ]


COUNT = 2 * MIN_SAMPLES
LINE = [100.0 + 2 * i for i in range(COUNT)]
CURVE = [float(i * i) for i in range(COUNT)]


def test_the_slope_is_in_units_an_hour() -> None:
    assert per_hour([(0.0, 5.0), (1800.0, 6.0), (3600.0, 7.0)]) == 2.0


def test_a_straight_line_grows_equally_in_both_halves_and_a_curve_does_not() -> None:
    measured = series(samples(COUNT, {"line": LINE, "curve": CURVE}))

    first, second = bend(measured["line"]) or (0.0, 0.0)
    assert abs(first - second) < 1e-6
    first, second = bend(measured["curve"]) or (0.0, 0.0)
    assert second > 2 * first


def test_a_short_run_says_nothing_about_growth() -> None:
    measured = samples(3, {"ledger, KiB": LINE})

    assert bend(series(measured)["ledger, KiB"]) is None
    assert rows(measured) == [("ledger, KiB", "100.0 to 104.0")]


def test_rows_name_first_and_last_value_and_the_growth_of_both_halves() -> None:
    assert rows(samples(COUNT, {"ledger, KiB": LINE})) == [
        ("ledger, KiB", "100.0 to 130.0; an hour: +240.0, then +240.0")
    ]


def test_what_could_not_be_measured_is_left_out() -> None:
    measured = [Sample(0.0, {"a": 1.0}), Sample(30.0, {}), Sample(60.0, {"a": 2.0})]

    assert series(measured) == {"a": [(0.0, 1.0), (60.0, 2.0)]}


def test_the_picture_has_a_chart_for_each_thing_measured() -> None:
    drawn = picture(samples(COUNT, {"line": LINE, "curve <2>": CURVE}))

    words = [each.text for each in ET.fromstring(drawn).iter() if each.tag.endswith("text")]
    assert {"line", "curve <2>"} <= set(words)
    assert drawn.count("stroke-dasharray") == 2


def test_nothing_measured_gives_an_empty_picture() -> None:
    assert ET.fromstring(picture([])).tag.endswith("svg")
