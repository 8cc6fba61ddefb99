"""The example with three kinds of payloads, as its page lands it: from a real Kafka and registry,
by Spark, to a real store. Every value is compared by DuckDB and by Spark.
"""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import dedent
from uuid import uuid4

import pytest
from examples.schemas import produce
from pyspark import SparkContext
from pyspark.sql import SparkSession

from landfall.api.contract import ExitCode
from landfall.cli import main
from tests.integration.conftest import keys
from tests.support.kafka.broker import Broker
from tests.support.kafka.registry import Registry
from tests.support.pages import shop
from tests.support.pages.markdown import DOCS, code
from tests.support.pages.shop import TOPICS, Rows, Types
from tests.support.stores.s3 import Bucket, S3Server

pytestmark = pytest.mark.xdist_group("spark")

LANDFALL = str(Path(sys.executable).parent / "landfall")
PAGE = DOCS / "start/schemas.md"
GROUP, URL = "examples/schemas/shop.yaml", "file:///tmp/shop"
"""The group and its output, as the page calls them."""


@dataclass(frozen=True)
class Tour:
    """The example's group, after it has landed everything.

    Attributes:
        file: the group.
        prefix: of its topics.
        bucket: where it lands.
        folder: has a copy of all objects.
        printed: by ``landfall run``.
    """

    file: Path
    prefix: str
    bucket: Bucket
    folder: Path
    printed: str

    def run(self, command: str) -> tuple[int, str]:
        """The exit code of a command of the page, and what it prints with the page's names."""
        line = command.replace(GROUP, str(self.file))
        for name in TOPICS:
            line = re.sub(rf"(--topic |/| ){name}\b", rf"\1{self.prefix}{name}", line)
        if "|" in line:
            line = line.replace("landfall", LANDFALL)
            done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
            return done.returncode, self._named(done.stdout + done.stderr)
        printed = io.TextIOWrapper(io.BytesIO(), write_through=True)
        with contextlib.redirect_stdout(printed):
            code = main(shlex.split(line)[1:])
        printed.seek(0)
        return code, self._named(printed.read())

    def _named(self, text: str) -> str:
        return text.replace(self.prefix, "").replace(self.bucket.url, URL)

    def files(self, topic: str) -> Path:
        """The folder of a topic's files."""
        return self.folder / f"{self.prefix}{topic}"


@pytest.fixture(scope="module")
def tour(
    kafka: Broker, registry: Registry, s3: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tour]:
    """Everything that the example produces, landed by ``landfall run``."""
    bucket, prefix = s3.create_bucket(), f"t{uuid4().hex[:8]}."
    folder = tmp_path_factory.mktemp("tour")
    output = {"url": bucket.url, "s3": {"endpoint": s3.endpoint, "pathStyle": True}}
    file = shop.written(folder, prefix, **output)
    produce.main(str(kafka), registry.url, topic=prefix.__add__)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LANDFALL_KAFKA", str(kafka))
        patch.setenv("LANDFALL_SCHEMA_REGISTRY", registry.url)
        for name, value in keys(s3).items():
            patch.setenv(name, value)
        done = subprocess.run(
            [LANDFALL, "run", str(file), "--until-caught-up", "--master", "local[2]"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == ExitCode.OK, done.stderr
        for key in bucket.keys(""):
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            (folder / key).write_bytes(bucket.read(key))
        yield Tour(file, prefix, bucket, folder, done.stderr)


# ------------------------------------------------------------------------------------ what is there


@pytest.mark.parametrize("topic", TOPICS)
def test_duckdb_and_spark_read_every_value_that_was_produced(
    tour: Tour, topic: str, context: SparkContext
) -> None:
    duckdb, spark = shop.types(topic)
    rows = shop.expected(topic, tour.prefix)

    assert shop.in_duckdb(tour.files(topic), topic) == (duckdb, rows)
    assert in_spark(context, tour.files(topic), spark) == (spark, rows)


@pytest.mark.parametrize(("topic", "files"), [("orders", 6), ("clicks", 2), ("logins", 2)])
def test_each_version_of_a_schema_has_files_of_its_own_on_each_day(
    tour: Tour, topic: str, files: int
) -> None:
    assert len(list(tour.files(topic).rglob("*.parquet"))) == files


def test_only_the_broken_payloads_are_dead_letters(tour: Tour) -> None:
    letters = shop.dead_letters(tour.folder / "_landfall/shop/dead-letters")

    assert letters == [(f"{tour.prefix}{topic}", *rest) for topic, *rest in shop.BROKEN]


def test_the_audit_says_that_it_cannot_compare_what_transforms_made(tour: Tour) -> None:
    code, text = tour.run(f"landfall audit {shop.EXAMPLE.relative_to(shop.ROOT)}")

    assert code == ExitCode.UNCHECKED, text
    assert "unchecked: logins: payloads: transforms change what is landed" in text


@pytest.mark.parametrize("command", ["audit --allow-unchecked", "verify", "fsck --deep"])
def test_every_check_is_content(tour: Tour, command: str) -> None:
    verb, *options = command.split()

    code, text = tour.run(
        f"landfall {verb} {shop.EXAMPLE.relative_to(shop.ROOT)} {' '.join(options)}"
    )

    assert code == ExitCode.OK, text


def in_spark(context: SparkContext, folder: Path, types: Types) -> tuple[Types, Rows]:
    """The types of columns and the rows of all files in a folder, by Spark."""
    found = session(context).read.option("mergeSchema", "true").parquet(str(folder)).select(*types)
    rows = [row.asDict(recursive=True) for row in found.orderBy("_offset").collect()]
    return dict(found.dtypes), shop.in_utc(rows)


def session(context: SparkContext) -> SparkSession:
    """Spark SQL, whose times are in UTC."""
    made = SparkSession(context)
    made.conf.set("spark.sql.session.timeZone", "UTC")
    return made


# ----------------------------------------------------------------------------------------- the page


@dataclass(frozen=True)
class Page:
    """What the page shows."""

    @cached_property
    def commands(self) -> dict[str, str]:
        """What it shows of each command's output."""
        blocks = code(PAGE, "console")
        pairs = (
            part.partition("\n")
            for block in blocks
            for part in block.text.removeprefix("$ ").split("\n$ ")
        )
        return {command: printed for command, _, printed in pairs}


def seen(text: str) -> list[str]:
    """The lines, without widths of columns, and without what differs from one run to the next."""
    text = re.sub(r"(offset \d+  )\S+Z$", r"\1TIME", text, flags=re.MULTILINE)
    text = re.sub(r'"timestamp":"[^"]+"', '"timestamp":"TIME"', text)
    text = re.sub(r"\bslot \d+", "slot N", text)
    # The id of the schema is the registry's.
    text = re.sub(r"\b0x00[0-9a-f]{8}", "0x00ID", text)
    text = re.sub(r"http://127[^'\"\s]*", "REGISTRY", text)
    # The page lands in a folder, the test in a bucket.
    text = re.sub(r"^ +(s3|endpoint|pathStyle):.*\n", "", text, flags=re.MULTILINE)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


LOOKS = [c for c in Page().commands if re.match("landfall (?!run)", c)]


@pytest.mark.parametrize("command", LOOKS)
def test_a_command_prints_what_the_page_shows(tour: Tour, command: str) -> None:
    code, printed = tour.run(command)

    expected = ExitCode.UNCHECKED if command.startswith("landfall audit") else ExitCode.OK
    assert (code, seen(printed)) == (expected, seen(Page().commands[command]))


def test_the_page_shows_how_the_run_ends(tour: Tour) -> None:
    (shown,) = [text for c, text in Page().commands.items() if c.startswith("landfall run")]
    end = re.compile(r"shop Stopped: 690 records landed, 3 dead letters, 0 to go, \d commits?$")

    assert end.search(tour.printed.strip())
    assert end.search(shown.strip())
    assert len(LOOKS) == 9


def test_the_page_shows_the_example() -> None:
    (shown,) = code(PAGE, "yaml")

    assert shop.EXAMPLE.read_text().endswith(shown.text)


def test_the_programs_of_the_page_print_what_it_shows(
    tour: Tour, context: SparkContext, capsys: pytest.CaptureFixture[str]
) -> None:
    by_duckdb, by_spark = (dedent(block.text) for block in code(PAGE, "python"))
    (schema,) = code(PAGE, "text")
    shown = Page().commands["python read.py"] + schema.text

    for program in (by_duckdb, by_spark):
        ours = program.replace("/tmp/shop/orders", str(tour.files("orders")))
        exec(ours, {"spark": session(context)})

    assert seen(capsys.readouterr().out) == seen(shown)
