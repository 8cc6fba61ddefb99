"""Routing equals the standard library for any time and zone, and no value leaves its directory."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from landfall.api.spec import Route, Timestamp, TimeUnit
from landfall.ledger.names import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.event_time import EventTime
from landfall.pipeline.records import filled
from landfall.pipeline.route import Router

ZONES = [
    *[
        "UTC",
        "America/New_York",
        "America/St_Johns",
        "Europe/Berlin",
        "Europe/London",
        "Asia/Kolkata",
        "Asia/Kathmandu",
    ],
    *[
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Africa/Monrovia",
        "America/Sao_Paulo",
        "Pacific/Chatham",
        "Asia/Gaza",
    ],
]
DAY = 86_400_000
instants = st.integers(-62_135_596_800_000 + DAY, 253_402_300_799_999 - DAY)
near_transitions = st.builds(
    lambda year, day, ms: int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 1000 + day * DAY + ms,
    st.integers(1900, 2040),
    st.sampled_from([66, 72, 80, 86, 91, 96, 121, 270, 277, 298, 304, 310]),
    st.integers(0, 7 * DAY),
)
texts = st.one_of(
    st.text(),
    st.text(st.characters()),
    st.text(alphabet="./\\%=\n\x00a~", max_size=12),
    st.sampled_from(["..", "../..", "/", "%2F", "%2e%2e", "\n", "", "con", "a" * 300, "é" * 200]),
)
scalars = st.one_of(texts, st.integers(), st.floats(), st.booleans(), st.none())


def of_time(pattern: str, zone: str) -> Router:
    return Router.of(
        Route(pattern=pattern, timezone=zone), Timestamp(field="t", unit=TimeUnit.MILLISECONDS)
    )


@given(
    st.lists(st.one_of(instants, near_transitions), min_size=1, max_size=60), st.sampled_from(ZONES)
)
@example([1143948659999, 1143948660000, 1143945060000, 1162097999999], "America/St_Johns")
@example([1325239200000 - 1, 1325239200000], "Pacific/Apia")
def test_labels_equal_the_standard_librarys(times: list[int], zone: str) -> None:
    records = filled(TopicPartition("t", 0), range(len(times)), [b""] * len(times))
    expected = [
        (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time)).astimezone(ZoneInfo(zone))
        for time in times
    ]

    for pattern, length in (
        ("{date}T{hour}:{minute}:%S", 19),
        ("{date}T{hour}", 13),
        ("{date}", 10),
    ):
        routed = of_time(pattern, zone).route(records, {("t",): np.array(times)})

        assert [routed.partitions[code] for code in routed.codes] == [
            moment.isoformat()[:length] for moment in expected
        ]
        assert len(set(routed.partitions)) == len(routed.partitions)


@given(st.lists(st.tuples(scalars, scalars), min_size=1, max_size=20))
def test_no_value_leaves_its_directory(values: list[tuple[object, object]]) -> None:
    fields = {("a",): [a for a, _ in values], ("b", "c"): [b for _, b in values]}
    router = Router.of(Route(pattern="{field:a}/x{field:b.c}y/z"), None)
    records = filled(TopicPartition("t", 0), range(len(values)), [b""] * len(values))

    routed = router.route(records, fields)

    for partition in routed.partitions:
        first, second, third = partition.split("/")
        assert first.strip(".")
        assert (second[0], second[-1], third) == ("x", "y", "z")
        key = object_names.ObjectName("t", partition, 1, 0, 0, ".json.gz").key
        assert object_names.parse_key(key).output_partition == partition
    assert sorted(np.flatnonzero(routed.codes < 0)) == routed.bad.rows.tolist()
    assert set(routed.codes[routed.codes >= 0].tolist()) == set(range(len(routed.partitions)))


iso = st.builds(
    lambda moment, separator, digits, zone: (
        moment.isoformat(separator) + (f".{digits}" if digits else "") + zone
    ),
    st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31)).map(  # noqa: DTZ001
        lambda moment: moment.replace(microsecond=0)
    ),
    st.sampled_from(["T", " "]),
    st.from_regex(r"[0-9]{0,12}", fullmatch=True),
    st.sampled_from(["", "Z", "+02:00", "-0330", "+05"]),
)
numbers = st.one_of(
    st.integers(), st.integers(-(10**13), 10**13), st.floats(-1e13, 1e13), st.floats()
)
written = st.one_of(
    iso, st.text(max_size=8), st.from_regex(r"[+-]?[0-9]{1,40}(\.[0-9]{0,5})?", fullmatch=True)
)


@given(
    st.lists(st.one_of(iso, written, numbers, st.none(), st.booleans()), min_size=1, max_size=12),
    st.sampled_from([unit for unit in TimeUnit if unit is not TimeUnit.CUSTOM]),
    st.sampled_from(ZONES),
)
def test_a_value_gives_the_same_time_alone_and_among_others(
    values: list[object], unit: TimeUnit, zone: str
) -> None:
    time = EventTime(Timestamp(field="t", unit=unit, timezone=zone))

    def read(column: object) -> list[object]:
        records = filled(TopicPartition("t", 0), range(len(column)), [b""] * len(column))
        times = time.read(records, {("t",): column})
        return [times.errors.get(row, millis) for row, millis in enumerate(times.millis.tolist())]

    together = read(values)
    strings = [value for value in values if isinstance(value, str)]

    assert together == [read([value])[0] for value in values]
    assert read(pa.array(strings, pa.string())) == [read([value])[0] for value in strings]


@given(iso, st.sampled_from(ZONES))
def test_iso_text_equals_the_standard_librarys(text: str, zone: str) -> None:
    moment = datetime.fromisoformat(text)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    records = filled(TopicPartition("t", 0), [0], [b""])

    times = EventTime(Timestamp(field="t", timezone=zone)).read(records, {("t",): [text]})

    assert times.millis.tolist() == [since // timedelta(milliseconds=1)]
