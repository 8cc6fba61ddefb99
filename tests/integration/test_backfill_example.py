"""What bad code has landed is landed again, promoted, taken back and promoted again, as the pages
of the example do it: from a real Kafka, by Spark, to a real S3. Every click is looked for.
"""

import gzip
import json
import re
from collections import Counter

import pytest

from landfall.api.contract import ExitCode
from tests.integration.conftest import Follow
from tests.support.pages.hourly_etl import shown, without_times
from tests.support.pages.markdown import code
from tests.support.pages.night_of_clicks import EXAMPLE, GUIDE, PAGE, NightOfClicks, produce

pytestmark = pytest.mark.xdist_group("spark")

Clicks = Counter[tuple[str, str, bool, bool]]
"""The hour whose folder a click is in, its id, and whether it has cents and a user."""
ENDS = {
    "landfall scan": ExitCode.FAULT,
    "landfall backfill compare": ExitCode.FAULT,
    "python hours.py /tmp/backfill/orders/redo.orders": 1,
    "landfall backfill run release-4.yaml no-users": ExitCode.STALLED,
}
"""How commands end that do not end well, the first time."""


@pytest.fixture
def example(follow: Follow) -> NightOfClicks:
    """The example, before anything is typed."""
    return follow(NightOfClicks)


def test_the_pages_show_what_happens(example: NightOfClicks) -> None:
    after = Counter[str]()
    ends = dict(ENDS)
    for command, printed in (*shown(PAGE), *shown(GUIDE)):
        exit_code, ours = example.type(command)
        assert exit_code == expected_end(command, ends), (command, ours)
        assert shape(command, ours) == shape(command, printed), command
        if command.startswith("landfall run release-"):
            after[command] += 1
            found = clicks(example)
            assert found == of_release(command.split()[2], after[command]), command

    assert example.type("landfall fsck release-4.yaml --deep")[0] == ExitCode.OK


def test_the_pages_show_the_groups() -> None:
    for page, name in ((PAGE, "release-1.yaml"), (GUIDE, "orders-1.yaml")):
        assert code(page, "yaml")[0].text == (EXAMPLE / name).read_text()
    bad = code(PAGE, "yaml")[1].text.splitlines()
    assert {*bad} < {*(EXAMPLE / "release-2.yaml").read_text().splitlines()}


def expected_end(command: str, ends: dict[str, int]) -> int:
    """How a command ends; what fails once is not expected to fail again."""
    known = next((known for known in ends if command.startswith(known)), "")
    if not known:
        return ExitCode.OK
    is_once = known.startswith(("python", "landfall backfill run"))
    return ends.pop(known) if is_once else ends[known]


def clicks(example: NightOfClicks) -> Clicks:
    """Every click that a listing of the bucket finds, as often as it is there."""
    below = f"etl/clicks/{example.prefix}.clicks/"
    return Counter(
        (key.partition("/hr=")[2][:2], row["id"], "cents" in row, "user" in row)
        for key in example.bucket.keys(below)
        for row in map(json.loads, gzip.decompress(example.bucket.read(key)).splitlines())
    )


def of_release(file: str, times: int) -> Clicks:
    """What is live after a release has run for so many times."""
    if file == "release-1.yaml":
        return landed(0, 1)
    if file == "release-2.yaml":
        return landed(0, 1) + landed(1, 3, "seen", has_cents=False)
    if file == "release-4.yaml":  # once to deploy it, and once to promote
        return landed(0, 4, has_user=times == 1)
    is_promoted = times in {2, 4}  # deployed, promoted, undone, promoted again
    bad = landed(1, 3, "seen", has_cents=False)
    return landed(0, 4) if is_promoted else landed(0, 1) + bad + landed(3, 4)


def landed(
    first: int, last: int, field: str = "at", *, has_cents: bool = True, has_user: bool = True
) -> Clicks:
    """The clicks from one hour until another, by the hour of a field."""
    made = map(produce.click, range(first * 60, last * 60))
    return Counter((str(c[field])[11:13], str(c["id"]), has_cents, has_user) for c in made)


def shape(command: str, text: str) -> list[str]:
    """The lines, without times and the numbers of slots."""
    slots = r"\bslot \d+|(?<=/r)\d+(?=_)|(?<=undo )\d+"
    return without_times(command, re.sub(slots, "S", text))
