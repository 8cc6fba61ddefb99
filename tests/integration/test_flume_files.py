"""Files by Flume, landed hour by hour as Parquet, as the page of the example shows it."""

import gzip
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
from pyspark import SparkContext

from landfall.api.contract import ExitCode
from tests.support.pages.flume_files import (
    EXAMPLE,
    FIRST,
    PAGE,
    FlumeFiles,
    driver_of_the_example,
    files,
)
from tests.support.pages.hourly_etl import shown, without_times
from tests.support.pages.markdown import code

pytestmark = pytest.mark.xdist_group("spark")

LEFT = "landfall run hits.yaml --until ${HOUR}:05Z"
"""The command of the page that leaves a file, when it is typed first."""


def test_the_page_shows_what_happens(context: SparkContext, tmp_path: Path) -> None:
    example, codes = FlumeFiles(tmp_path), []
    example.prepare()

    with driver_of_the_example(context):
        for command, printed in shown(PAGE):
            exit_code, ours = example.type(command)
            assert without_times(command, ours) == without_times(command, printed), command
            codes += [(command, exit_code)] if exit_code else []

    assert codes == [(LEFT, ExitCode.STALLED)]
    assert landed(tmp_path) == written(tmp_path / "in")
    hours = [FIRST + n * files.HOUR + 5 * files.MINUTE for n in (1, 1, 2)]
    left = [("hits",), (), ()]
    ends = [int(hour.timestamp() * 1000) for hour in hours]
    runs = [(run.until, run.left) for run in example.state().runs]
    assert runs == list(zip(ends, left, strict=True))


def test_the_page_shows_the_group() -> None:
    assert code(PAGE, "yaml")[0].text == (EXAMPLE / "hits.yaml").read_text()


def written(folder: Path) -> Counter[tuple[str, int]]:
    """The rows of all files that are finished."""
    found: Counter[tuple[str, int]] = Counter()
    for file in folder.rglob("*.gz"):
        if "_current" not in file.name:
            rows = map(json.loads, gzip.decompress(file.read_bytes()).splitlines())
            found.update((row["host"], row["id"]) for row in rows)
    return found


def landed(folder: Path) -> Counter[tuple[str, int]]:
    """The rows in Parquet, each in the folder of its hour."""
    query = f"SELECT host, id, hr FROM '{folder}/out/hits/*/*/*.parquet'"
    rows = duckdb.connect().sql(query).fetchall()
    # The number of a hit is its second.
    assert all(f"{datetime.fromtimestamp(number, UTC):%H}" == hour for _, number, hour in rows)
    return Counter((host, number) for host, number, _ in rows)
