import numpy as np
import pyarrow as pa
import pytest

from landfall.api.spec import Route, Timestamp, TimeUnit
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import FieldValues, Records, of_columns
from landfall.pipeline.route import DEFAULT_PARTITION, Routed, Router, escape
from landfall.pipeline.route.pattern import parse_pattern

LATE = 1_357_034_399_999
"""2013-01-01T09:59:59.999Z."""


def rows(count: int, timestamps: list[int] | None = None) -> Records:
    stamps = None if timestamps is None else np.array(timestamps, np.int64)
    return of_columns(
        TopicPartition("app.web", 7),
        np.arange(count),
        pa.nulls(count, pa.binary()),
        timestamps=stamps,
    )


def routed(pattern: str, times: list[int], zone: str = "UTC", **fields: FieldValues) -> Routed:
    router = Router.of(Route(pattern=pattern, timezone=zone), None)
    return router.route(
        rows(len(times), times),
        {tuple(name.split("__")): values for name, values in fields.items()},
    )


def output_partition(pattern: str, time: int, zone: str = "UTC", **fields: FieldValues) -> str:
    (partition,) = routed(pattern, [time], zone, **fields).partitions
    return partition


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("dt={date}/hr={hour}/min={minute}", "dt=2013-01-01/hr=09/min=59"),
        ("{topic}/{time:%Y/%m/%d}", "app.web/2013/01/01"),
        ("%Y-%m-%d", "2013-01-01"),
        ("{time:%F at %H%M%S}", "2013-01-01 at 095959"),
        ("y=%y/j=%j/w=%G-W%V-%u", "y=13/j=001/w=2013-W01-2"),
        ("everything", "everything"),
        ("p={kafka_partition}", "p=7"),
        ("{date}/{hour}{minute:15}", "2013-01-01/0945"),
        ("{minute:30}-{minute:20}", "30-40"),
        ("{time:%d %b %Y}", "01 Jan 2013"),
        ("yyyy=%Y/mm=%m/dd=%d", "yyyy=2013/mm=01/dd=01"),
        ("summary/added/dates", "summary/added/dates"),
    ],
)
def test_a_pattern_renders_the_output_partition(pattern: str, expected: str) -> None:
    assert output_partition(pattern, LATE) == expected


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("America/New_York", "dt=2013-01-01/hr=04"),
        ("Asia/Kathmandu", "dt=2013-01-01/hr=15"),
        ("Pacific/Auckland", "dt=2013-01-01/hr=22"),
    ],
)
def test_labels_are_wall_time(zone: str, expected: str) -> None:
    assert output_partition("dt={date}/hr={hour}", LATE, zone) == expected


def test_the_repeated_hour_has_one_label() -> None:
    first, second = (
        1_793_511_000_000,
        1_793_514_600_000,
    )  # 05:30Z and 06:30Z on 2026-11-01, both 01:30 in New York

    both = routed("dt={date}/hr={hour}", [first, second], "America/New_York")

    assert (both.partitions, both.codes.tolist()) == (("dt=2026-11-01/hr=01",), [0, 0])


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("{when}", "unknown placeholder '{when}'"),
        ("dt={date", "unknown placeholder '{'"),
        ("dt=date}", "unknown placeholder '}'"),
        ("{}", "unknown placeholder '{}'"),
        ("{field:}", "invalid field path: {field:}"),
        ("{field:a..b}", "invalid field path"),
        ("%Q", "unknown directive '%Q'"),
        ("100%", "unknown directive '%'"),
        ("{time:%Y%}", "unknown directive '%'"),
        ("/dt={date}", "not directories"),
        ("dt={date}/", "not directories"),
        ("../{date}", "not directories"),
        ("{time:}", "not directories"),
        ("a\nb", "control characters"),
        ("x" * 241, "directories too long"),
    ],
)
def test_a_wrong_pattern_is_refused_with_the_placeholder(pattern: str, message: str) -> None:
    with pytest.raises(
        ValueError, match="^" + message.replace("{", r"\{").replace("}", r"\}").replace(".", r"\.")
    ):
        parse_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("/dt={date}/hr={hour}/", ", did you mean 'dt={date}/hr={hour}'?"),
        ("{date}/../{field:a}", ""),
        ("//", ""),
    ],
)
def test_a_wrong_folder_is_shown_as_it_was_written(pattern: str, hint: str) -> None:
    with pytest.raises(ValueError, match="not directories") as refused:
        parse_pattern(pattern)

    assert str(refused.value) == f"not directories below the output root: {pattern!r}{hint}"


def test_a_router_asks_for_the_fields_it_reads() -> None:
    time = Timestamp(field="meta.ts")

    assert Router.of(
        Route(pattern="{date}/{field:meta.country}/{field:a}/{field:a}"), time
    ).fields == (
        ("meta", "ts"),
        ("meta", "country"),
        ("a",),
    )
    assert Router.of(Route(pattern="{field:a}"), time).fields == (("a",),)


def test_a_pattern_without_time_reads_no_time() -> None:
    got = routed("{topic}", [-1, -1])

    assert (got.codes.tolist(), got.partitions, got.times_ms, len(got.bad)) == (
        [0, 0],
        ("app.web",),
        None,
        0,
    )


def test_rows_without_a_time_are_bad_and_the_others_are_routed() -> None:
    got = routed("dt={date}", [LATE, -1, 0])

    assert [got.partitions[code] for code in got.codes[[0, 2]]] == [
        "dt=2013-01-01",
        "dt=1970-01-01",
    ]
    assert (got.codes[1], got.bad.rows.tolist(), got.bad.errors) == (
        -1,
        [1],
        ["record has no Kafka timestamp"],
    )


def test_no_output_partition_is_made_for_bad_rows_alone() -> None:
    got = routed("dt={date}/{field:a}", [LATE, LATE], a=["x", {}])

    assert (got.partitions, got.bad.errors) == (
        ("dt=2013-01-01/x",),
        ["route: field 'a' is not a single value"],
    )


def test_no_rows_give_no_output_partition() -> None:
    got = routed("dt={date}/{field:a}", [], a=[])

    assert (got.codes.tolist(), got.partitions, len(got.bad)) == ([], (), 0)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("US", "US"),
        (5, "5"),
        (1.5, "1.5"),
        (True, "true"),
        (None, DEFAULT_PARTITION),
        ("", DEFAULT_PARTITION),
        ("../../etc", "..%2F..%2Fetc"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("a=b c", "a%3Db%20c"),
        ("%2F", "%252F"),
        ("a\nb\x00", "a%0Ab%00"),
        ("größe", "größe"),
        ("\u2028\ufeff", "%E2%80%A8%EF%BB%BF"),
        ("\ud800", "%ED%A0%80"),
    ],
)
def test_a_field_value_becomes_a_safe_directory(value: object, expected: str) -> None:
    assert output_partition("v={field:a__b}".replace("__", "."), 0, a__b=[value]) == f"v={expected}"


def test_equal_texts_of_unequal_values_share_a_partition() -> None:
    got = routed("{field:a}", [0] * 5, a=[None, "", "1", 1, True])

    assert ([got.partitions[code] for code in got.codes], len(got.partitions)) == (
        [DEFAULT_PARTITION, DEFAULT_PARTITION, "1", "1", "true"],
        3,
    )


@pytest.mark.parametrize("column", [np.array([7, 8, 7]), pa.array(["7", "8", "7"]), ["7", 8, "7"]])
def test_a_field_routes_the_same_in_every_kind_of_column(column: FieldValues) -> None:
    got = routed("{date}/{field:a}", [0, 0, 86_400_000], a=column)

    assert [got.partitions[code] for code in got.codes] == [
        "1970-01-01/7",
        "1970-01-01/8",
        "1970-01-02/7",
    ]


def test_a_text_column_may_have_gaps() -> None:
    assert output_partition("{field:a}", 0, a=pa.array([None], pa.string())) == DEFAULT_PARTITION


def test_a_value_too_long_for_a_directory_is_bad() -> None:
    got = routed(
        "v={field:a}/w={field:b}/{field:c}",
        [0, 0],
        a=["x" * 239, "x" * 238],
        b=["y" * 240, "y" * 238],
        c=["", ""],
    )

    assert (got.codes.tolist(), len(got.partitions), got.bad.rows.tolist()) == ([-1, 0], 1, [0])
    assert got.bad.errors[0].startswith("route: output partition is too long, 511 bytes: 'v=xxx")


def test_years_beyond_the_calendar_of_the_zone_are_bad() -> None:
    first = -62_135_596_800_000

    time = Timestamp(field="t", unit=TimeUnit.MILLISECONDS)

    router = Router.of(Route(pattern="{date}", timezone="America/New_York"), time)
    west = router.route(rows(1), {("t",): np.array([first])})

    assert west.bad.errors == [f"timestamp out of range in America/New_York, got {first}"]


def test_an_escaped_text_is_one_directory() -> None:
    assert escape("a/b") == "a%2Fb"
