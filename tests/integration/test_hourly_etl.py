"""The hourly ETL with two businesses, as its page runs it: from a real Kafka, by Spark, to a real
S3. Every record is looked for in the folder of its business and its hour.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

import duckdb
import pytest
from pyspark import SparkContext

from landfall.api.contract import ExitCode
from tests.integration.conftest import keys
from tests.support.kafka.broker import Broker, Message
from tests.support.pages.hourly_etl import (
    EXAMPLE,
    FIRST,
    NOW,
    PAGE,
    HourlyEtl,
    drivers_of,
    produce,
    shown,
    without_times,
)
from tests.support.pages.markdown import code
from tests.support.stores.s3 import S3Server

pytestmark = pytest.mark.xdist_group("spark")

HOUR = produce.HOUR
PAID = [n for n in range(HOUR // produce.MINUTE * produce.HOURS) if n % 5 < 4]


@pytest.fixture(scope="module")
def etl(
    kafka: Broker,
    s3: S3Server,
    context: SparkContext,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[HourlyEtl]:
    """The example, with its records in Kafka."""
    folder, prefix = tmp_path_factory.mktemp("etl"), f"t{uuid4().hex[:8]}"
    made = HourlyEtl(kafka, s3.create_bucket(), folder, prefix)
    made.prepare()
    with pytest.MonkeyPatch.context() as patch, drivers_of(made, context):
        for name, value in keys(s3).items():
            patch.setenv(name, value)
        yield made


@dataclass(frozen=True)
class Typed:
    """A command of the page, and what came of it.

    Attributes:
        command: as the page has it.
        shown: what the page shows of it.
        code: its exit code.
        printed: with the page's names.
        objects: outside of the ledgers, with the time of each.
    """

    command: str
    shown: str
    code: int
    printed: str
    objects: dict[str, tuple[str, str]]


@dataclass(frozen=True)
class Landed:
    """What there is after the page's commands.

    Attributes:
        typed: the commands, one after the other.
        rows: by group, the identifying value of each row with the hour whose folder it is in.
        runs: by group, where each range ended.
    """

    typed: Sequence[Typed]
    rows: Mapping[str, Sequence[tuple[str, object]]]
    runs: Mapping[str, Sequence[int]]


@pytest.fixture(scope="module")
def landed(etl: HourlyEtl) -> Landed:
    """Everything that the page does; nothing of it is looked up later, when more has landed."""
    typed = [Typed(c, text, *etl.type(c), data(etl)) for c, text in shown()]
    rows = {
        "orders": in_hours(etl, "id", "orders/*.orders/*/*/*.parquet"),
        "clicks": in_hours(etl, "at", "clicks/*.clicks/*/*/*.json.gz"),
        "again": in_hours(etl, "id", "again/*.orders/*/*/*.parquet"),
    }
    runs = {name: [each.until for each in etl.state(name).runs] for name in ("orders", "clicks")}
    return Landed(typed, rows, runs)


def data(etl: HourlyEtl) -> dict[str, tuple[str, str]]:
    return {key: stamp for key, stamp in etl.bucket.stamps().items() if "/_landfall/" not in key}


def in_hours(etl: HourlyEtl, column: str, files: str) -> list[tuple[str, object]]:
    """The value of each row, with the hour whose folder it is in."""
    etl.copy()
    return (
        duckdb.connect()
        .execute(f"SELECT hr, \"{column}\" FROM '{etl.folder}/etl/{files}' ORDER BY ALL")
        .fetchall()
    )


# ------------------------------------------------------------------------------------------- page


def test_the_page_shows_what_happens(landed: Landed) -> None:
    codes = {each.command: each.code for each in landed.typed if each.code != ExitCode.OK}
    assert codes == {"landfall audit orders.yaml": ExitCode.UNCHECKED}  # it has transforms
    for each in landed.typed:
        ours, theirs = (without_times(each.command, t) for t in (each.printed, each.shown))
        assert ours == theirs, each.command
    assert len(landed.typed) > 15


def test_the_page_shows_the_groups() -> None:
    shown = [block.text for block in code(PAGE, "yaml")][:2]

    assert shown == [(EXAMPLE / f"{name}.yaml").read_text() for name in ("orders", "clicks")]


# ---------------------------------------------------------------------------------- what is there


def test_every_order_is_in_its_hour_once(landed: Landed) -> None:
    expected = [(f"{(FIRST + n * produce.MINUTE):%H}", n) for n in PAID] + [("02", 1000)]

    assert landed.rows["orders"] == sorted(expected)


def test_every_click_is_in_its_hour_once(landed: Landed) -> None:
    times = [FIRST + n * 20 * produce.SECOND for n in range(180 * produce.HOURS + 3)]
    late = FIRST + HOUR - produce.MINUTE
    expected = [(f"{at:%H}", f"{at:%d/%b/%Y:%H:%M:%S +0000}") for at in (*times, late)]

    assert landed.rows["clicks"] == sorted(expected)


def test_what_is_landed_again_has_the_records_of_its_range(landed: Landed) -> None:
    expected = [("02", 1000), *(("03", n) for n in PAID if 60 <= n < 120)]

    assert landed.rows["again"] == expected


def test_each_run_ends_where_it_should(landed: Landed) -> None:
    hours = [FIRST + n * HOUR for n in (1, 2, 3)]

    assert landed.runs == {
        "orders": [millis(each) for each in hours],
        "clicks": [millis(each + 5 * produce.MINUTE) for each in hours],
    }


def millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def test_a_second_run_of_a_range_changes_nothing(landed: Landed) -> None:
    typed = landed.typed
    runs = [n for n, each in enumerate(typed) if each.command.startswith("landfall run orders")]
    first, due, again, by_hand = (typed[n].objects for n in runs)

    assert first.items() < due.items()
    assert again == by_hand == typed[runs[2] - 1].objects


# -------------------------------------------------------------------------------- one that fails


def test_a_business_that_fails_does_not_stop_the_other(etl: HourlyEtl, landed: Landed) -> None:
    assert landed.typed
    next_hour(etl)
    topic = f"{etl.prefix}.clicks"

    codes = [etl.type(f"landfall run {name}.yaml")[0] for name in ("clicks", "orders")]

    assert codes == [ExitCode.STALLED, ExitCode.OK]
    assert etl.state("clicks").runs[-1].left == (topic,)
    assert marked(etl, "clicks") == ["02", "03", "04"]
    assert marked(etl, "orders") == ["02", "03", "04"]
    mended = [
        etl.type(command)[0]
        for command in (
            "landfall unblock clicks.yaml hour.clicks/0 --why 'a test'",
            "landfall run clicks.yaml",
        )
    ]
    assert mended == [ExitCode.OK] * 2
    assert etl.state("clicks").runs[-1].left == ()
    assert marked(etl, "clicks") == ["02", "03", "04", "05"]


def next_hour(etl: HourlyEtl) -> None:
    """An hour passes, in which many clicks are broken."""
    at = NOW + 10 * produce.MINUTE
    of = {"clicks": [b"?"] * 40, "orders": [produce.order(300 + n, at) for n in range(10)]}
    for name, payloads in of.items():
        dated = [Message(each, timestamp=millis(at)) for each in payloads]
        etl.kafka.produce(f"{etl.prefix}.{name}", dated)
    etl.at(NOW + HOUR)


def marked(etl: HourlyEtl, name: str) -> list[str]:
    """The hours of a business that have ``_SUCCESS``."""
    marks = [key for key in etl.bucket.keys(f"etl/{name}/") if key.endswith("/_SUCCESS")]
    return [key.partition("/hr=")[2].partition("/")[0] for key in marks]
