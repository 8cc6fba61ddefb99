import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from landfall.api.spec import Timestamp
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.event_time import MAX_MILLIS, MIN_MILLIS, EventTime, EventTimes, column_times
from landfall.pipeline.records import FieldValues, Records, of_columns
from tests.support.driver.transformed import Group
from tests.support.pages.markdown import DOCS

HOUR = 3_600_000
TEN = 1_357_034_400_000
"""2013-01-01T10:00:00Z."""


def rows(count: int, timestamps: list[int] | None = None) -> Records:
    stamps = None if timestamps is None else np.array(timestamps, np.int64)
    return of_columns(
        TopicPartition("t", 0), np.arange(count), pa.nulls(count, pa.binary()), timestamps=stamps
    )


def read(
    values: FieldValues, timestamps: list[int] | None = None, **timestamp: object
) -> EventTimes:
    time = EventTime(Timestamp.model_validate({"field": "ts", **timestamp}))
    return time.read(rows(len(values), timestamps), {("ts",): values})


def millis(value: object, **timestamp: object) -> int | str:
    """Return the time of one value, which must be the same in every kind of column."""
    times = read([value], **timestamp)
    if type(value) is int and abs(value) < 2**63:
        assert read(np.array([value]), **timestamp).millis.tolist() == times.millis.tolist()
    if isinstance(value, str):
        assert read(pa.array([value]), **timestamp).millis.tolist() == times.millis.tolist()
    mixed = read([value, None, 5, "x", value, 1.5], **timestamp)
    assert mixed.millis[[0, 4]].tolist() == times.millis.tolist() * 2
    return times.errors.get(0) or int(times.millis[0])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (-5, -5000),
        (999_999_999, 999_999_999_000),
        (10**12, 10**12),
        (10**12 - 1, "timestamp out of range, got 999999999999"),
        (10**15, 10**12),
        (10**15 - 1, "timestamp out of range, got 999999999999999"),
        (10**18 - 1, "timestamp out of range, got 999999999999999999"),
        (10**18, 10**12),
        (1_357_034_400, TEN),
        (TEN, TEN),
        (TEN * 1000 + 999, TEN),
        (TEN * 10**6 + 999_999, TEN),
        ("1357034400", TEN),
        ("1357034400.9999999", TEN + 999),
        (1357034400.25, TEN + 250),
        (1357034400.99999, TEN + 999),
        (-0.5, -500),
        ("-0.5", -500),
        ("-0.0001", -1),
        (10**30, f"timestamp out of range, got {10**30}"),
        (float("nan"), "timestamp out of range, got nan"),
        (float("inf"), "timestamp out of range, got inf"),
        (1e300, "timestamp out of range, got 1e+300"),
        (True, "timestamp: expected a number or ISO-8601 text, got True"),
        ({}, "timestamp: expected a number or ISO-8601 text, got {}"),
        ("", "timestamp: expected a number or ISO-8601 text, got ''"),
        ("0x10", "timestamp: expected a number or ISO-8601 text, got '0x10'"),
        (" 5", "timestamp: expected a number or ISO-8601 text, got ' 5'"),
        ("2013-01-01T10:00:00Z", TEN),
    ],
)
def test_auto_chooses_the_unit_by_secors_rule(value: object, expected: int | str) -> None:
    assert millis(value) == expected


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        ("Seconds", 1_357_034_400),
        ("Milliseconds", TEN),
        ("Microseconds", TEN * 1000 + 1),
        ("Nanoseconds", TEN * 10**6 + 1),
        ("Nanoseconds", str(TEN * 10**6 + 1)),
        ("Milliseconds", float(TEN)),
        ("Milliseconds", "2013-01-01T10:00:00Z"),
    ],
)
def test_a_declared_unit_overrides_the_size_of_the_number(unit: str, value: object) -> None:
    assert millis(value, unit=unit) == TEN


@pytest.mark.parametrize(
    ("unit", "value"), [("Milliseconds", -1), ("Microseconds", -1), ("Nanoseconds", -1)]
)
def test_negative_times_round_down(unit: str, value: object) -> None:
    assert millis(value, unit=unit) == -1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2013-01-01T10:00:00Z", TEN),
        ("2013-01-01 10:00:00Z", TEN),
        ("2013-01-01T12:00:00+02:00", TEN),
        ("2013-01-01T12:00:00+0200", TEN),
        ("2013-01-01T05:00:00", TEN),
        ("2013-01-01T10:00:00.5Z", TEN + 500),
        ("2013-01-01T10:00:00.123456Z", TEN + 123),
        ("2013-01-01T10:00:00.123456789Z", TEN + 123),
        ("2013-01-01T10:00:00.999999999999Z", TEN + 999),
        ("20130101T100000Z", TEN),
        ("2013-01-01T10Z", TEN),
        ("2013-01-01t10:00:00z", TEN),
        ("2013-01-01Z", TEN - 10 * HOUR),
        ("2013-01-01z", TEN - 10 * HOUR),
        ("2013-01-01+02:00", TEN - 12 * HOUR),
        ("2013-01-01T24:00:00Z", TEN + 14 * HOUR),
        ("2012-12-31t24:00", TEN - 5 * HOUR),
        ("2012-12-31 24:00:00.000+01:00", TEN - 11 * HOUR),
        ("2012-12-31T23:59:60Z", TEN - 10 * HOUR),
        ("2013-01-01T05:29:60.250+05:30", TEN - 10 * HOUR + 250),
        ("20121231T235960Z", TEN - 10 * HOUR),
        ("2012-12-31T23:59:60", TEN - 5 * HOUR),
        ("2013-001T10:00:00Z", TEN),
        ("2012-366T24:00Z", TEN - 10 * HOUR),
        ("2013-001Z", TEN - 10 * HOUR),
        ("2013-01-01 10:00:00 UTC", TEN),
        ("2013-01-01T10:00:00.5UTC", TEN + 500),
        ("2013-01-01 GMT", TEN - 10 * HOUR),
        ("2013-01-01T10:00:00Z[UTC]", TEN),
        ("2013-01-01T11:00:00+01:00[Europe/Berlin]", TEN),
        ("0001-01-01T00:00:00Z", MIN_MILLIS),
        ("9999-12-31T23:59:59.999Z", MAX_MILLIS),
    ],
)
def test_iso_text_is_read_in_every_form(text: str, expected: int | str) -> None:
    assert millis(text, unit="Iso8601", timezone="America/New_York") == expected


@pytest.mark.parametrize(
    "text",
    [
        "2013-01-01T24:00:01Z",
        "2013-01-01T24:01Z",
        "2012-12-31T12:00:60Z",
        "2012-12-31T23:59:61Z",
        "2013-366T10:00:00Z",
        "2013-000T10:00:00Z",
        "2013-01-01T10:00:00[UTC]",
        "2013-01-01T10:00:00 CET",
        "2013-01-01T10:00:00+01:00 UTC",
        "Tue, 01 Jan 2013 10:00:00 GMT",
        "0000-06-01T00:00:00Z",
        "0000-12-31T23:59:59-01:00",
        "0000-06-01",
        "2013-01-01+2",
        "2013-13-01",
        "2013-02-30T00:00:00Z",
        "2013-01-01T25:00:00Z",
        "soon",
        "",
        "٢٠١٣",
    ],
)
def test_text_that_is_not_a_time_is_bad(text: str) -> None:
    assert millis(text, unit="Iso8601") == f"timestamp: expected ISO-8601 text, got {text!r}"


@pytest.mark.parametrize("unit", ["Auto", "Seconds", "Nanoseconds"])
@pytest.mark.parametrize("text", ["9" * 26, "-" + "9" * 26, "9" * 5000])
def test_a_number_with_too_many_digits_is_bad(text: str, unit: str) -> None:
    assert str(millis(text, unit=unit)).startswith("timestamp out of range, got ")


@pytest.mark.parametrize(
    ("unit", "value", "micros"),
    [
        ("Iso8601", "2013-01-01T10:00:00.123456Z", 123_456),
        ("Iso8601", "2013-01-01T10:00:00.123456789Z", 123_456),
        ("Iso8601", "2013-01-01T10:00:00,123456+00:00", 123_456),
        ("Auto", "1357034400.123456", 123_456),
        ("Auto", 1357034400.123456, 123_456),
        ("Auto", 1357034400000.5, 500),
        ("Auto", "1357034400000.0019", 1),
        ("Milliseconds", TEN + 1, 1000),
        ("Microseconds", TEN * 1000 + 1, 1),
        ("Nanoseconds", TEN * 10**6 + 1999, 1),
    ],
)
def test_microseconds_are_kept_and_what_is_finer_is_cut(
    unit: str, value: object, micros: int
) -> None:
    times = read([value, "2013-01-01T10:00:00Z"], unit=unit)

    assert times.micros.tolist() == [TEN * 1000 + micros, TEN * 1000]


@pytest.mark.parametrize("unit", ["Seconds", "Milliseconds", "Microseconds", "Nanoseconds"])
@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_a_number_at_the_end_of_64_bits_is_no_other_time(unit: str, value: int) -> None:
    found = millis(value, unit=unit)

    assert found == f"timestamp out of range, got {value}" or unit == "Nanoseconds"


@pytest.mark.parametrize("seconds", [2.0**33 + 0.123, -(2.0**33) + 0.123, 2.0**37 + 0.5])
def test_a_double_that_has_no_microseconds_is_rounded_to_milliseconds(seconds: float) -> None:
    assert millis(seconds, unit="Seconds") == round(seconds * 1000)


def test_a_kafka_timestamp_beyond_the_calendar_is_bad() -> None:
    times = EventTime(None).read(rows(2, [2**63 - 1, TEN]), {})

    assert dict(times.errors) == {0: f"timestamp out of range, got {2**63 - 1}"}
    assert int(times.millis[1]) == TEN


def micros_of(text: str) -> int:
    return (datetime.fromisoformat(text) - datetime.fromtimestamp(0, UTC)) // timedelta(
        microseconds=1
    )


TEXTS_OF_TIMES = re.findall(
    r"^\| `([^`]+)` \| ([0-9TZ:.-]+|dead letter: [^|]+) \|$",
    (DOCS / "guides" / "decode-and-route.md").read_text(),
    re.MULTILINE,
)


@pytest.mark.parametrize(("text", "meaning"), TEXTS_OF_TIMES)
def test_a_text_means_what_the_guide_says(text: str, meaning: str) -> None:
    time = millis(text)

    if meaning.startswith("dead letter"):
        assert time == f"timestamp: expected a number or ISO-8601 text, got {text!r}"
    else:
        assert read([text]).micros.tolist() == [micros_of(meaning)]
    if custom := re.search(r'`Custom`, `format: "(.+)"`', meaning):
        assert millis(text, unit="Custom", format=custom[1]) == 1_795_233_600_000


def test_the_guide_has_texts_of_times() -> None:
    assert len(TEXTS_OF_TIMES) > 20


@pytest.mark.parametrize(
    ("field", "date"),
    [
        ("at.$date", '"2025-11-21T04:00:00Z"'),
        ("at.$date.$numberLong", '{"$numberLong":"1763697600000"}'),
    ],
)
def test_a_date_of_mongodb_is_read_by_its_path(field: str, date: str) -> None:
    group = Group(
        [], spec={"decode__timestamp": {"field": field}, "route__pattern": "{time:%F/%H}"}
    )

    chunk = group.partition(f'{{"at":{{"$date":{date}}}}}'.encode())

    assert [name for name, _ in chunk.outputs] == ["2025-11-21/04"]


def test_a_number_is_not_iso_text() -> None:
    assert millis(5, unit="Iso8601") == "timestamp: expected ISO-8601 text, got 5"


@pytest.mark.parametrize(
    ("layout", "value"),
    [
        ("%d/%b/%Y:%H:%M:%S %z", "01/Jan/2013:11:00:00 +0100"),
        ("%Y%m%d%H", 2013010105),
        ("%Y%m%d%H", "2013010105"),
    ],
)
def test_a_custom_format_is_read_by_strptime(layout: str, value: object) -> None:
    assert millis(value, unit="Custom", format=layout, timezone="America/New_York") == TEN


NEW_YEAR = 1_798_761_600_000
"""2027-01-01T00:00:00Z."""
MINUTE, DAY = 60_000, 24 * HOUR


@pytest.mark.parametrize(
    ("text", "kafka", "expected"),
    [
        ("Jan  1 00:00:30", NEW_YEAR + MINUTE, NEW_YEAR + 30_000),
        ("Dec 31 23:59:00", NEW_YEAR + MINUTE, NEW_YEAR - MINUTE),
        ("Jan  1 00:01:00", NEW_YEAR - MINUTE, NEW_YEAR + MINUTE),
        ("Dec 31 23:59:00", NEW_YEAR - MINUTE, NEW_YEAR - MINUTE),
        ("Jul  1 00:00:00", NEW_YEAR + 190 * DAY, NEW_YEAR + 181 * DAY),
        ("Feb 29 00:00:00", NEW_YEAR + 424 * DAY, NEW_YEAR + 424 * DAY),
        ("Feb 29 00:00:00", NEW_YEAR + 300 * DAY, NEW_YEAR + 424 * DAY),
    ],
)
def test_a_date_without_a_year_is_of_the_year_nearest_to_the_kafka_timestamp(
    text: str, kafka: int, expected: int
) -> None:
    times = read([text, None], [kafka, 5], unit="Custom", format="%b %d %H:%M:%S", missing="Epoch")

    assert (times.millis.tolist(), dict(times.errors)) == ([expected, 0], {})


def test_a_date_without_a_year_needs_a_kafka_timestamp_and_a_day_that_exists() -> None:
    times = read(
        ["Jan 1", "Feb 30", "Feb 29"],
        [-1, NEW_YEAR, NEW_YEAR - 100 * DAY],  # of 2025, 2026 and 2027 none is a leap year
        unit="Custom",
        format="%b %d",
    )

    assert dict(times.errors) == {
        0: "timestamp: no year, and the record has no Kafka timestamp to take it from",
        1: "timestamp: expected text in the format '%b %d', got 'Feb 30'",
        2: "timestamp: expected text in the format '%b %d', got 'Feb 29'",
    }


def test_missing_times_follow_the_policy() -> None:
    values = [TEN, None, None]
    stamps = [7, 8, -1]

    dead = read(values, stamps)
    kafka = read(values, stamps, missing="KafkaTimestamp")
    epoch = read(values, stamps, missing="Epoch")

    assert dict(dead.errors) == {1: "timestamp: no field 'ts'", 2: "timestamp: no field 'ts'"}
    assert (kafka.millis.tolist()[:2], dict(kafka.errors)) == (
        [TEN, 8],
        {2: "record has no Kafka timestamp"},
    )
    assert (epoch.millis.tolist(), dict(epoch.errors)) == ([TEN, 0, 0], {})


def test_without_a_field_the_kafka_timestamp_dates_a_record() -> None:
    times = EventTime(None).read(rows(2, [TEN, -1]), {})

    assert int(times.millis[0]) == TEN
    assert dict(times.errors) == {1: "record has no Kafka timestamp"}


def test_one_unusual_text_does_not_change_the_others() -> None:
    texts = ["2013-01-01T10:00:00Z"] * 1000
    texts[700] = "2013-01-01T10:00:00.0000000001Z"
    texts[900] = "x"

    times = read(texts)

    assert times.millis.tolist() == [TEN] * 900 + [0] + [TEN] * 99
    assert list(times.errors) == [900]


def test_half_a_surrogate_pair_is_not_a_time() -> None:
    times = read(["\ud800", "2013-01-01T10:00:00Z"])

    assert (int(times.millis[1]), list(times.errors)) == (TEN, [0])


def test_long_values_are_shortened_in_errors() -> None:
    assert len(read(["x" * 10_000]).errors[0]) < 200


def test_the_error_of_a_time_out_of_range_has_the_original_text() -> None:
    """In a column of one shape and in one of several shapes."""
    for texts in (["300000000000"], ["300000000000", "2000-01-01T00:00:00"]):
        times = column_times(texts, Timestamp(field="t"))  # a list, as decoders give one

        assert times.errors == {0: "timestamp out of range, got '300000000000'"}
