"""The example with a Secor deployment, as its page takes it over: from a real Kafka, by Spark, to a
real S3. Hadoop's reader and gzip compare all messages that Secor and Landfall have landed.
"""

import contextlib
import gzip
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark import SparkContext

from landfall.api.contract import ExitCode
from landfall.cli import main
from tests.integration.conftest import keys
from tests.support.kafka.broker import Broker
from tests.support.pages.markdown import code
from tests.support.pages.takeover import (
    EXAMPLE,
    PAGE,
    Takeover,
    left_by_secor,
    shown,
    without_times,
)
from tests.support.stores.s3 import S3Server

pytestmark = pytest.mark.xdist_group("spark")

COMMANDS = [(c, text) for c, text in shown() if c.startswith("landfall")]
ENDS = {partition: starts[-1] for partition, starts in left_by_secor.UPLOADS.items()}
LONG = "org.apache.hadoop.io.LongWritable"
BYTES = "org.apache.hadoop.io.BytesWritable"


@pytest.fixture(scope="module")
def prepared(
    kafka: Broker, s3: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Takeover]]:
    """Makes what Secor leaves, in a bucket and a topic of its own."""

    def make() -> Takeover:
        folder, topic = tmp_path_factory.mktemp("takeover"), f"t{uuid4().hex[:8]}.clicks"
        return Takeover.prepared(kafka, s3.create_bucket(), folder, topic)

    with pytest.MonkeyPatch.context() as patch:
        for name, value in keys(s3).items():
            patch.setenv(name, value)
        yield make


@pytest.fixture(scope="module")
def takeover(prepared: Callable[[], Takeover]) -> Takeover:
    return prepared()


@pytest.fixture(scope="module")
def typed(takeover: Takeover) -> Sequence[tuple[str, int, str]]:
    """The page's commands in order, with their exit codes and what they printed."""
    return [(command, *takeover.type(command)) for command, _ in COMMANDS]


# ------------------------------------------------------------------------------------------- page


def test_the_page_shows_what_happens(typed: Sequence[tuple[str, int, str]]) -> None:
    assert [code for _, code, _ in typed] == [ExitCode.OK] * 9
    for (command, shown_text), (_, _, printed) in zip(COMMANDS, typed, strict=True):
        lines = [without_times(text) for text in (printed, shown_text)]
        if "landfall run" in command:
            lines = [each[-1:] for each in lines]

        assert lines[0] == lines[1], command


def test_the_page_shows_the_files(
    takeover: Takeover, typed: Sequence[tuple[str, int, str]]
) -> None:
    (properties,), (group,) = code(PAGE, "properties"), code(PAGE, "yaml")

    assert typed
    assert properties.text == (EXAMPLE / "secor.prod.backup.properties").read_text()
    assert group.text == takeover.theirs((takeover.folder / "backup.yaml").read_text())


# ----------------------------------------------------------------------------------- what is there


def test_every_message_is_in_one_object_of_secor_or_of_landfall(
    takeover: Takeover,
    typed: Sequence[tuple[str, int, str]],
    context: SparkContext,
    tmp_path: Path,
) -> None:
    assert typed
    for partition in ENDS:
        name = re.compile(rf"/[12]_{partition}_\d{{20}}\.gz$")
        backup, texts = (
            [key for key in takeover.bucket.keys(folder) if name.search(key)]
            for folder in ("backup/", "partition/")
        )
        files = ",".join(copy(takeover, key, tmp_path) for key in backup)
        read = context.sequenceFile(files, LONG, BYTES).collect()
        lines = b"".join(gzip.decompress(takeover.bucket.read(key)) for key in texts)
        messages = [left_by_secor.message(partition, o) for o in range(left_by_secor.COUNT)]

        assert sorted((o, bytes(payload)) for o, payload in read) == list(enumerate(messages))
        assert sorted(lines.splitlines()) == sorted(messages)


def copy(takeover: Takeover, key: str, folder: Path) -> str:
    path = folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(takeover.bucket.read(key))
    return str(path)


# ------------------------------------------------------------------------------ what is not joined


@contextlib.contextmanager
def without(takeover: Takeover, key: str) -> Iterator[None]:
    body = takeover.bucket.read(key)
    takeover.bucket.server.client.delete_object(Bucket=takeover.bucket.name, Key=key)
    yield
    takeover.bucket.write(key, body)


class Checks:
    """Runs the check in this process."""

    def __init__(self, takeover: Takeover, capsys: pytest.CaptureFixture[str]) -> None:
        self._takeover, self._capsys = takeover, capsys

    def lines(self, group: str = "backup.yaml") -> tuple[int, list[str]]:
        url = f"{self._takeover.bucket.url}/backup"
        self._capsys.readouterr()
        code = main(["migrate", "check", str(self._takeover.folder / group), "--from", url])
        return code, self._takeover.theirs(self._capsys.readouterr().out).splitlines()

    def starting(self, offsets: Mapping[int, int]) -> tuple[int, list[str]]:
        """The check of a group without a ledger, made with these offsets of a dump of ZooKeeper."""
        folder, topic = self._takeover.folder, self._takeover.topic
        at = f"/consumers/secor_backup/offsets/{topic}"
        dump = "".join(f"{at}/{p} {offset}\n" for p, offset in offsets.items())
        (folder / "dump.txt").write_text(dump)
        command = "landfall migrate secor secor.prod.backup.properties --env --name other"
        given = "--bootstrap-servers $LANDFALL_KAFKA --offsets dump.txt --output other.yaml"
        assert self._takeover.type(f"{command} {given}")[0] == ExitCode.OK
        return self.lines("other.yaml")


@pytest.fixture
def checks(
    takeover: Takeover,
    typed: Sequence[tuple[str, int, str]],
    capsys: pytest.CaptureFixture[str],
) -> Checks:
    assert typed
    return Checks(takeover, capsys)


def table() -> list[str]:
    """The lines in the page's table of what the check finds."""
    section = PAGE.read_text().partition("## What the check finds\n")[2]
    return re.findall(r"^\| .* \| `(.*)` \|$", section, re.MULTILINE)


@pytest.fixture(scope="module")
def untouched(prepared: Callable[[], Takeover]) -> Takeover:
    """Where Landfall has not landed anything yet."""
    return prepared()


@pytest.fixture
def checks_before(untouched: Takeover, capsys: pytest.CaptureFixture[str]) -> Checks:
    return Checks(untouched, capsys)


TOO_LATE, TOO_EARLY, NO_LAST, NO_OTHER, NO_FIRST, GENERATION = table()


@pytest.mark.parametrize(("by", "line"), [(5, TOO_LATE), (-5, TOO_EARLY)])
def test_a_start_too_late_or_too_early_is_found(checks_before: Checks, by: int, line: str) -> None:
    code, (first, second) = checks_before.starting({0: ENDS[0] + by, 1: ENDS[1]})

    assert (code, first) == (ExitCode.FAULT, line)
    assert second.endswith("first new 260, not landed yet: joined")


def test_the_start_that_secor_committed_is_joined(checks_before: Checks) -> None:
    code, lines = checks_before.starting(ENDS)

    assert (code, [line.rpartition(": ")[2] for line in lines]) == (ExitCode.OK, ["joined"] * 2)


LAST = "dt=2026-11-21/1_0_00000000000000000200.gz"
OTHER = "dt=2026-11-20/1_1_00000000000000000150.gz"
FIRST = "dt=2026-11-21/2_0_00000000000000000300.gz"


@pytest.mark.parametrize(("gone", "line"), [(LAST, NO_LAST), (OTHER, NO_OTHER), (FIRST, NO_FIRST)])
def test_an_object_that_is_gone_is_found(
    takeover: Takeover, checks: Checks, gone: str, line: str
) -> None:
    with without(takeover, f"backup/{takeover.topic}/{gone}"):
        code, lines = checks.lines()

    assert code == ExitCode.FAULT
    assert line in lines
    assert checks.lines()[0] == ExitCode.OK


def test_a_generation_of_secor_that_is_not_below_the_groups_is_found(
    takeover: Takeover, checks: Checks
) -> None:
    key = f"backup/{takeover.topic}/dt=2026-11-20/3_0_00000000000000000000.gz"
    takeover.bucket.write(key, left_by_secor.sequence_file([(0, b"{}")]))

    with_it = checks.lines()
    takeover.bucket.server.client.delete_object(Bucket=takeover.bucket.name, Key=key)

    assert with_it[0] == ExitCode.FAULT
    assert GENERATION in with_it[1]


def test_an_audit_calls_no_object_of_secors_extra(takeover: Takeover, checks: Checks) -> None:
    assert checks.lines()[0] == ExitCode.OK

    code, printed = takeover.type("landfall audit backup.yaml")

    assert code == ExitCode.OK, printed
    assert "objects do not belong to Landfall" in printed
