"""A database's changes become a table, as the page of the example does it: from a real Kafka, by
Spark, to a real S3; merged, undone and audited.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark import SparkContext

from landfall.api.contract import ExitCode
from tests.integration.conftest import keys
from tests.support.kafka.broker import Broker
from tests.support.pages.followed_changes import EXAMPLE, PAGE, FollowedChanges
from tests.support.pages.hourly_etl import drivers_of, shown, without_times
from tests.support.pages.markdown import code
from tests.support.stores.s3 import S3Server

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def example(
    kafka: Broker,
    s3: S3Server,
    context: SparkContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[FollowedChanges]:
    """The example, with its records in Kafka."""
    for name, value in keys(s3).items():
        monkeypatch.setenv(name, value)
    made = FollowedChanges(kafka, s3.create_bucket(), tmp_path, f"t{uuid4().hex[:8]}")
    made.prepare()
    with drivers_of(made, context):
        yield made


def test_the_page_shows_what_happens(example: FollowedChanges) -> None:
    commands = [each for each in shown(PAGE) if "table" in each[0]]
    for command, printed in commands:
        exit_code, ours = example.type(command)
        assert exit_code == ExitCode.OK, (command, ours)
        assert shape(command, ours) == shape(command, printed), command

    assert len(commands) > 10
    assert example.type("landfall fsck table.yaml --deep")[0] == ExitCode.OK


def test_the_page_shows_the_group() -> None:
    assert (EXAMPLE / "table.yaml").read_text() in [block.text for block in code(PAGE, "yaml")]


def shape(command: str, text: str) -> list[str]:
    """The lines, without times and the numbers of slots."""
    if command.startswith("landfall publish"):  # as the last run, or its driver, has done it
        return []
    slots = r"\bslot \d+|(?<=/r)\d+(?=_)|^ +\d+(?=  )|^\d+(?= objects do not belong)"
    return without_times(command, re.sub(slots, "S", text, flags=re.MULTILINE))
