"""What landed, read by Spark SQL: from a real S3 server, and by a manifest, as a Hive table."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from landfall.cli import main
from tests.integration.conftest import keys
from tests.support.ledger.readable import CLICKS, Readable
from tests.support.publishers.hive_reader import SparkSql, spark_sql
from tests.support.stores.s3 import Bucket, S3Server

pytestmark = pytest.mark.xdist_group("spark")

FIRST, SECOND = "dt=2026-11-21/hr=04", "dt=2026-11-21/hr=05"


@pytest.fixture(scope="module")
def spark(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSql]:
    with pytest.MonkeyPatch.context() as patched:
        for name, value in keys(s3).items():
            patched.setenv(name, value)
        with spark_sql("", tmp_path_factory.mktemp("spark")) as session:
            yield session


def test_spark_reads_a_group_on_s3(
    spark: SparkSql, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in keys(bucket.server).items():
        monkeypatch.setenv(name, value)
    s3 = {"endpoint": bucket.server.endpoint, "pathStyle": True, "region": "us-east-1"}
    landed = Readable(tmp_path, output={"url": f"{bucket.url}/parsed", "s3": s3})
    landed.land(CLICKS, (FIRST, [{"id": 1}]), (SECOND, [{"id": 2}, {"id": 3}]))
    first = landed.settle()
    landed.land(CLICKS, (SECOND, [{"id": 4}])).settle()
    landed.land(CLICKS, (SECOND, [{"id": 5}]))  # nothing says yet that it is visible
    options = {"path": landed.url, **{f"s3.{name}": value for name, value in s3.items()}}

    for view, slot in (("now", {}), ("then", {"slot": first})):
        given = ", ".join(f"'{name}' '{value}'" for name, value in {**options, **slot}.items())
        spark.rows(f"create temporary view {view} using landfall options ({given})")

    assert spark.rows("select hr, id from now order by id") == [
        ["04", 1],
        ["05", 2],
        ["05", 3],
        ["05", 4],
    ]
    assert spark.rows("select count(*), max(id) from then where hr = '05'") == [[2, 3]]


def test_a_hive_table_of_a_symlink_manifest_has_what_is_visible(
    spark: SparkSql, tmp_path: Path
) -> None:
    landed = Readable(tmp_path, format="Json")
    landed.land(CLICKS, (FIRST, [{"id": 1}]), (SECOND, [{"id": 2}, {"id": 3}])).settle()
    landed.land(CLICKS, (SECOND, [{"id": 4}]))  # nothing says yet that it is visible
    arguments = ["manifest", landed.url, "--topic", "clicks", "--format", "Symlink", "--write"]
    assert main(arguments) == 0
    spark.rows(
        "create external table clicks (value string) partitioned by (dt string, hr string) "
        "stored as inputformat 'org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat' "
        "outputformat 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat' "
        f"location '{landed.url}/clicks/_symlink_format_manifest'"
    )
    spark.rows("msck repair table clicks")

    found = "select hr, get_json_object(value, '$.id') from clicks order by value"

    assert spark.rows(found) == [["04", "1"], ["05", "2"], ["05", "3"]]
    landed.settle()
    assert main(arguments) == 0
    assert spark.rows(found) == [["04", "1"], ["05", "2"], ["05", "3"], ["05", "4"]]
