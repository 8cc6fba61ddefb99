"""A database's changes become a table, as the page of the example does it: from a real Kafka, by
Spark, to a real S3; merged, undone and audited.
"""

import re

import pytest

from landfall.api.contract import ExitCode
from tests.integration.conftest import Follow
from tests.support.pages.followed_changes import EXAMPLE, PAGE, FollowedChanges
from tests.support.pages.hourly_etl import shown, without_times
from tests.support.pages.markdown import code

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def example(follow: Follow) -> FollowedChanges:
    """The example, with its records in Kafka."""
    return follow(FollowedChanges)


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
