"""Where another program has stopped, from what tools print."""

import json

import pytest

from landfall_migrate.offsets import StoppedAt, parsed
from landfall_migrate.properties import UnreadableError

DESCRIBED = """
Consumer group 'secor_backup' has no active members.

GROUP           TOPIC    PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID
secor_backup    clicks   0          100             120             20   -            -     -
secor_backup    clicks   1          -               7               -    -            -     -
secor_backup    views    0          0               0               0    -            -     -
"""  # noqa: E501  # as Kafka prints it
OLDER = """
TOPIC    PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG
clicks   0          100             120             20
"""
DUMP = {
    "/kafka/consumers/secor_backup/offsets/clicks/0": "100",
    "/kafka/consumers/secor_backup/offsets/clicks/1": 7,
    "/kafka/consumers/secor_backup/owners/clicks/0": "x",
    "/kafka/consumers/secor_backup/lastSeen/clicks/0": "99",
}


def test_what_kafka_describes() -> None:
    found = parsed("a", DESCRIBED)

    assert found == StoppedAt({"clicks": {"0": 100}, "views": {"0": 0}}, ("clicks/1",))
    assert parsed("a", OLDER) == StoppedAt({"clicks": {"0": 100}})


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(DUMP),
        "\n".join(f"{path} {value}" for path, value in DUMP.items()),
        "\n".join(f"{path} = {value}" for path, value in DUMP.items()),
        "\n".join(f'{path}: "{value}"' for path, value in DUMP.items() if "owners" not in path),
    ],
)
def test_what_zookeeper_holds(text: str) -> None:
    assert parsed("a", text) == StoppedAt({"clicks": {"0": 100, "1": 7}})


def test_of_several_groups_one_counts() -> None:
    text = "/consumers/a/offsets/t/0 1\n/consumers/b/offsets/t/0 2"

    assert parsed("a", text, "b") == StoppedAt({"t": {"0": 2}})
    with pytest.raises(UnreadableError, match="offsets of several groups: a, b; none is 'c'"):
        parsed("a", text, "c")


def test_an_offset_below_zero_is_none() -> None:
    assert parsed("a", "/consumers/g/offsets/t/0 -1") == StoppedAt({}, ("t/0",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a: no offset found"),
        ("{", "a:1: invalid JSON"),
        ('{"/consumers/g/offsets/t/0": "x"}', "a: /consumers/g/offsets/t/0: 'x' is no offset"),
        (f"{OLDER}clicks   x          100             120             20", "a:4: no Kafka"),
    ],
)
def test_what_is_no_dump_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnreadableError) as refused:
        parsed("a", text)

    assert str(refused.value).startswith(message)
