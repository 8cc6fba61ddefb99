"""The publisher ``Iceberg``: what its options mean, and what does not fit together."""

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from landfall.errors import DestinationAway, Reason, Stalled
from landfall.publish.building import publisher
from landfall.publish.context import Context
from landfall.publish.library_errors import REPEATS
from tests.support.publishers.lake import CLICKS, ORDERS, Landed
from tests.support.publishers.parquet_files import landed_again, rewritten, with_column

Options = dict[str, Any]


def catalog_of(root: Path) -> Options:
    return {
        "type": "sql",
        "uri": f"sqlite:///{root}/catalog.db",
        "warehouse": f"file://{root}/warehouse",
    }


def built(context: Context) -> Any:
    return publisher(context.group, context.entry, context.store)


def test_landed_files_become_the_rows_of_a_table_for_each_topic(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS, ORDERS).settle()
    catalog = catalog_of(tmp_path)
    context = landed.context("Iceberg", {"catalog": catalog, "table": "raw.of_{topic}"})

    done = built(context).publish(context.follower())

    assert (done.objects, done.through) == (2, landed.sample.state.seq)
    table = load_catalog("landfall", **catalog).load_table("raw.of_clicks")
    assert sorted(table.scan().to_arrow()["_offset"].to_pylist()) == [*range(10)]
    paths = table.inspect.files()["file_path"].to_pylist()
    assert paths == [landed.url(landed.keys("clicks")[0])]


@pytest.mark.parametrize(
    ("values", "nulls", "nans", "bounds"),
    [
        ([2.5, None, -0.0], 1, 0, (-0.0, 2.5)),
        ([2.5, math.inf, -1.0], 0, 0, (-1.0, math.inf)),
        ([2.5, math.nan, None], 1, 1, None),  # Spark takes NaN for the largest number
        ([math.nan, math.nan, None], 1, None, None),  # Iceberg takes no comparison for true then
        ([None, None, None], 3, 0, None),
    ],
)
def test_a_file_has_what_is_known_of_its_floating_point_numbers(
    tmp_path: Path, values: list[Any], nulls: int, nans: int | None, bounds: Any
) -> None:
    landed = Landed(tmp_path).land(CLICKS, rows=3).settle()
    path = Path(landed.url(landed.keys("clicks")[0]).removeprefix("file://"))
    landed_again(path, with_column("price", values, pa.float64()))
    catalog = catalog_of(tmp_path)
    context = landed.context("Iceberg", {"catalog": catalog})

    built(context).publish(context.follower())

    table = load_catalog("landfall", **catalog).load_table("lake.clicks")
    (metrics,) = table.inspect.files()["readable_metrics"].to_pylist()
    found = metrics["price"]
    assert (found["null_value_count"], found["nan_value_count"]) == (nulls, nans)
    assert repr((found["lower_bound"], found["upper_bound"])) == repr(bounds or (None, None))


def test_a_column_without_bounds_in_a_row_group_has_none_in_the_file(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS, rows=3).settle()
    path = Path(landed.url(landed.keys("clicks")[0]).removeprefix("file://"))
    texts = ["m", "n", "z" * 6_000]  # Arrow writes no bound of over 4 kB
    landed_again(path, with_column("name", texts, pa.string()), group_rows=2)
    catalog = catalog_of(tmp_path)
    context = landed.context("Iceberg", {"catalog": catalog})

    built(context).publish(context.follower())

    table = load_catalog("landfall", **catalog).load_table("lake.clicks")
    (metrics,) = table.inspect.files()["readable_metrics"].to_pylist()
    assert (metrics["name"]["lower_bound"], metrics["name"]["upper_bound"]) == (None, None)
    assert metrics["name"]["null_value_count"] == 0
    assert metrics["_offset"]["upper_bound"] == 2
    assert table.scan(row_filter="name > 'o'").to_arrow()["name"].to_pylist() == texts[2:]


def test_only_the_topics_that_are_named_are_published(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS, ORDERS).settle()
    catalog = catalog_of(tmp_path)
    context = landed.context("Iceberg", {"catalog": catalog}, entry={"topics": ["ord.*"]})

    built(context).publish(context.follower())

    found = load_catalog("landfall", **catalog)
    assert found.list_tables("lake") == [("lake", "orders")]


def test_properties_are_those_of_new_tables_and_retries_are_nobody_elses(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    options = {"catalog": catalog_of(tmp_path), "properties": {"write.x": True, "n": 3}}
    context = landed.context("Iceberg", options)

    built(context).publish(context.follower())

    table = load_catalog("landfall", **catalog_of(tmp_path)).load_table("lake.clicks")
    assert (table.properties["write.x"], table.properties["n"]) == ("true", "3")
    assert "commit.retry.num-retries" not in table.properties


def refusal(context: Context) -> str:
    with pytest.raises(Stalled) as caught:
        built(context)
    return str(caught.value)


def test_what_does_not_fit_is_refused_at_the_start(tmp_path: Path) -> None:
    landed, catalog = Landed(tmp_path), catalog_of(tmp_path)
    both = {"source__kafka__topics": ["a.b", "a_b"]}

    assert refusal(landed.context("Iceberg", {})).startswith("spec.publish[0].options: ")
    assert refusal(landed.context("Iceberg", {"catalog": catalog, "table": "clicks"})) == (
        "spec.publish[0].options.table: expected namespaces and a name, such as lake.{topic}, of "
        "letters, digits, _ and -, got 'clicks'"
    )
    assert refusal(landed.context("Iceberg", {"catalog": catalog}, **both)) == (
        "spec.publish[0].options.table: topics a.b and a_b would share table lake.a_b; publish "
        "them by two publishers, each with a table of its own"
    )
    as_json = landed.context("Iceberg", {"catalog": catalog}, output={"format": "Json"})
    assert refusal(as_json) == (
        "spec.publish[0]: type: Iceberg tables are made of Parquet files, but output.format of a "
        "topic is Json"
    )


def test_a_declared_column_with_a_reserved_name_is_refused_at_the_start(tmp_path: Path) -> None:
    columns = [{"name": "_file", "type": "String"}]
    spec = {"decode__format": "Json", "decode__columns": columns}

    text = refusal(Landed(tmp_path).context("Iceberg", {"catalog": catalog_of(tmp_path)}, **spec))

    assert text.startswith("spec.decode.columns: _file is a name that Iceberg reserves")


def test_topics_that_share_a_table_on_purpose_do(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS, ORDERS).settle()
    catalog = catalog_of(tmp_path)
    context = landed.context("Iceberg", {"catalog": catalog, "table": "lake.all"})

    built(context).publish(context.follower())

    table = load_catalog("landfall", **catalog).load_table("lake.all")
    assert table.scan().to_arrow().num_rows == 20


def test_columns_that_appear_are_added_and_numbers_become_wider(tmp_path: Path) -> None:
    landed, options = Landed(tmp_path).land(CLICKS), {"catalog": catalog_of(tmp_path)}
    first = landed.keys("clicks")[0]
    rewritten(landed, first, with_column("n", pa.array(range(10), pa.int32())))
    context = landed.settle().context("Iceberg", options)
    built(context).publish(context.follower())
    landed.land(CLICKS).land(CLICKS).settle()
    second, third = landed.keys("clicks")[1:]
    rewritten(landed, second, with_column("n", pa.array([2**40] * 10, pa.int64())))
    rewritten(landed, third, with_column("place", [{"city": "Oslo"}] * 10))

    built(context).publish(context.follower())

    table = load_catalog("landfall", **catalog_of(tmp_path)).load_table("lake.clicks")
    rows = table.scan().to_arrow().sort_by("_offset").to_pylist()
    assert [row["n"] for row in rows] == [*range(10), *[2**40] * 10, *[None] * 10]
    assert [row["place"] for row in rows] == [*[None] * 20, *[{"city": "Oslo"}] * 10]
    assert table.scan(row_filter="n < 3").to_arrow().num_rows == 3


def stalled(context: Context) -> Stalled:
    with pytest.raises(Stalled) as caught:
        built(context).publish(context.follower())
    return caught.value


def test_a_file_that_contradicts_its_table_stalls_and_publishes_nothing_of_it(
    tmp_path: Path,
) -> None:
    landed, options = Landed(tmp_path).land(CLICKS).settle(), {"catalog": catalog_of(tmp_path)}
    context = landed.context("Iceberg", options)
    built(context).publish(context.follower())
    landed.land(CLICKS).settle()
    key = landed.keys("clicks")[1]
    rewritten(landed, key, with_column("name", range(10)))

    error = stalled(context)

    assert error.reason is Reason.DESTINATION_CONFLICT
    assert str(error) == (
        f"object {landed.url(key)} does not fit table lake.clicks: column name is long in the "
        "file and string in the table (Cannot change column type: name: string -> long)"
    )
    table = load_catalog("landfall", **catalog_of(tmp_path)).load_table("lake.clicks")
    assert table.scan().to_arrow().num_rows == 10


def test_no_column_is_added_if_nobody_wants_it(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    options = {"catalog": catalog_of(tmp_path), "schemaEvolution": "None"}
    context = landed.context("Iceberg", options)
    built(context).publish(context.follower())
    landed.land(CLICKS).settle()
    rewritten(landed, landed.keys("clicks")[1], with_column("new", range(10)))

    assert "column new is not in the table; change the table, or set" in str(stalled(context))


def test_an_object_that_is_gone_or_damaged_is_said(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    context = landed.context("Iceberg", {"catalog": catalog_of(tmp_path)})
    built(context).publish(context.follower())
    landed.land(CLICKS).settle()
    url = landed.url(landed.keys("clicks")[1])
    path = Path(url.removeprefix("file://"))
    body = path.read_bytes()

    path.write_bytes(b"no")
    damaged = stalled(context)
    path.unlink()
    gone = stalled(context)
    path.write_bytes(body)

    assert (damaged.reason, gone.reason) == (Reason.OBJECT_LOST, Reason.OBJECT_LOST)
    assert str(damaged).startswith(f"object {url} is no Parquet file: ")
    assert str(gone) == f"object {url} is not there"
    built(context).publish(context.follower())
    table = load_catalog("landfall", **catalog_of(tmp_path)).load_table("lake.clicks")
    assert table.scan().to_arrow().num_rows == 20


def test_a_table_of_another_ledger_is_not_mixed_up(tmp_path: Path) -> None:
    options = {"catalog": catalog_of(tmp_path)}
    first = Landed(tmp_path).land(CLICKS).land(CLICKS).settle()
    context = first.context("Iceberg", options)
    built(context).publish(context.follower())
    other = Landed(tmp_path / "moved").land(CLICKS).settle()

    error = stalled(other.context("Iceberg", options))

    assert (
        f"table lake.clicks follows the ledger of group shop in {first.url('')}; publish what is in"
        in str(error)
    )


TYPED = {"decode__format": "Json", "decode__columns": [{"name": "name", "type": "String"}]}


def test_tables_are_partitioned_by_the_day_that_the_route_names(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    context = landed.context("Iceberg", {"catalog": catalog_of(tmp_path)}, **TYPED)

    built(context).publish(context.follower())

    table = load_catalog("landfall", **catalog_of(tmp_path)).load_table("lake.clicks")
    assert [str(field.transform) for field in table.spec().fields] == ["day"]
    partitions = table.inspect.partitions().to_pylist()
    assert [str(row["partition"]["_timestamp_day"]) for row in partitions] == ["2026-11-21"]
    in_time = table.scan(row_filter="_timestamp >= '2026-11-21T00:05:00+00:00'")
    assert in_time.to_arrow().num_rows == 5
    assert (
        list(table.scan(row_filter="_timestamp < '2026-11-21T00:00:00+00:00'").plan_files()) == []
    )


@pytest.mark.parametrize(
    ("partition_by", "spec", "why"),
    [
        (["bucket(3, name)"], {}, "expected a column, or year, month, day or hour of one"),
        (["name"], {}, "a file may have several values of name; route.pattern needs name={field:"),
        (["hour(_timestamp)"], {}, "a file may have several values of hour(_timestamp); "),
        (["day(_timestamp)"], {"route__timezone": "Europe/Oslo"}, "route.pattern dt={date} in Eu"),
        (["day(other)"], {}, "a file may have several values of day(other)"),
    ],
)
def test_what_may_have_several_values_in_a_file_partitions_no_table(
    tmp_path: Path, partition_by: list[str], spec: Options, why: str
) -> None:
    options = {"catalog": catalog_of(tmp_path), "partitionBy": partition_by}

    text = refusal(Landed(tmp_path).context("Iceberg", options, **TYPED, **spec))

    assert text.startswith("spec.publish[0].options.partitionBy: ")
    assert why in text


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (["a"] * 9 + ["b"], "more than one partition values"),
        (["a"] * 9 + [None], "column name, which the table is partitioned by, is null in 1 of 10"),
    ],
)
def test_a_file_of_several_partitions_stalls(
    tmp_path: Path, values: list[str | None], why: str
) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    rewritten(landed, landed.keys("clicks")[0], with_column("name", values))
    options = {"catalog": catalog_of(tmp_path), "partitionBy": ["name"]}
    route = {"route__pattern": "dt={date}/name={field:name}"}

    assert why in str(stalled(landed.context("Iceberg", options, **TYPED, **route)))


def test_files_without_a_value_are_in_the_partition_of_null(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).land(CLICKS).settle()
    one, none = landed.keys("clicks")
    rewritten(landed, one, with_column("name", ["a"] * 10))
    rewritten(landed, none, with_column("name", pa.nulls(10, pa.string())))
    options = {"catalog": catalog_of(tmp_path), "partitionBy": ["name"]}
    context = landed.context("Iceberg", options, route__pattern="name={field:name}", **TYPED)

    built(context).publish(context.follower())

    table = load_catalog("landfall", **catalog_of(tmp_path)).load_table("lake.clicks")
    assert table.scan(row_filter="name is null").to_arrow().num_rows == 10
    assert table.scan(row_filter="name = 'a'").to_arrow().num_rows == 10
    assert len([*table.scan(row_filter="name = 'a'").plan_files()]) == 1


def test_the_warehouse_is_not_among_the_landed_objects(tmp_path: Path) -> None:
    landed, catalog = Landed(tmp_path), catalog_of(tmp_path)
    catalog["warehouse"] = landed.url("warehouse")

    text = refusal(landed.context("Iceberg", {"catalog": catalog}))

    assert text.startswith("spec.publish[0].options.catalog: the warehouse must not be in output")


def test_a_table_of_a_version_that_cannot_be_written_is_refused_by_its_version(
    tmp_path: Path,
) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    context = landed.context("Iceberg", {"catalog": catalog_of(tmp_path)})
    built(context).publish(context.follower())
    table = load_catalog("landfall", **catalog_of(tmp_path)).load_table("lake.clicks")
    metadata = Path(table.metadata_location.removeprefix("file://"))
    upgraded = json.loads(metadata.read_text()) | {"format-version": 3, "next-row-id": 0}
    metadata.write_text(json.dumps(upgraded))
    landed.land(CLICKS).settle()

    error = stalled(context)

    assert error.reason is Reason.DESTINATION_CONFLICT
    assert str(error) == (
        "table lake.clicks has format version 3 of Iceberg, and Landfall writes versions up to 2; "
        "publish to another table"
    )


def test_no_table_is_created_that_cannot_be_written(tmp_path: Path) -> None:
    options = {"catalog": catalog_of(tmp_path), "properties": {"format-version": "3"}}

    assert refusal(Landed(tmp_path).context("Iceberg", options)) == (
        "spec.publish[0].options.properties: format-version must be 1 or 2, which Landfall can "
        "write, got 3"
    )


def test_an_error_that_the_library_does_not_explain_is_a_conflict_when_it_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    context = landed.context("Iceberg", {"catalog": catalog_of(tmp_path)})
    publishing = built(context)

    def odd(*_: object, **__: object) -> None:
        raise KeyError("a shape that nobody has seen")

    with monkeypatch.context() as patched:
        patched.setattr("pyiceberg.catalog.sql.SqlCatalog.create_table", odd)
        for _ in range(REPEATS - 1):
            with pytest.raises(DestinationAway):
                publishing.publish(context.follower())
        with pytest.raises(Stalled, match="a shape that nobody has seen") as caught:
            publishing.publish(context.follower())

    assert caught.value.reason is Reason.DESTINATION_CONFLICT
    assert publishing.publish(context.follower()).refilled == ["lake.clicks"], "it passes after all"


def partitioned_anew(root: Path, by: str = "bucket[4]") -> Any:
    """Have somebody partition the table by names, of which a landed file has several."""
    table = load_catalog("landfall", **catalog_of(root)).load_table("lake.clicks")
    with table.update_spec() as update:
        update.add_field("name", by)
    return table


@pytest.mark.parametrize("merge", [True, False])
def test_files_are_appended_under_the_latest_partition_spec_that_fits(
    tmp_path: Path, merge: bool
) -> None:
    properties = {"commit.manifest-merge.enabled": merge, "commit.manifest.min-count-to-merge": 2}
    options = {"catalog": catalog_of(tmp_path), "properties": properties}
    landed = Landed(tmp_path).land(CLICKS).settle()
    context = landed.context("Iceberg", options, **TYPED)
    built(context).publish(context.follower())
    table = partitioned_anew(tmp_path, "identity")
    landed.land(CLICKS).land(CLICKS).settle()
    rewritten(landed, landed.keys("clicks")[2], with_column("name", ["a"] * 10))

    built(context).publish(context.follower())
    landed.land(CLICKS).settle()
    built(context).publish(context.follower())

    table.refresh()
    rows = table.scan().to_arrow().sort_by("_offset").to_pylist()
    assert [row["_offset"] for row in rows] == [*range(40)]
    specs = [(task.file.spec_id, task.file.record_count) for task in table.scan().plan_files()]
    assert sorted(specs) == [(0, 10)] * 3 + [(1, 10)], "one file has a single name"
    assert table.scan(row_filter="name = 'n15'").to_arrow().num_rows == 1
    summary = table.current_snapshot().summary
    assert (summary["added-records"], summary["total-records"]) == ("10", "40")


def test_a_table_of_several_partition_specs_is_filled_again(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    context = landed.context("Iceberg", {"catalog": catalog_of(tmp_path)}, **TYPED)
    built(context).publish(context.follower())
    table = partitioned_anew(tmp_path)
    landed.land(CLICKS).settle()
    built(context).publish(context.follower())

    built(context).reset(context.follower())
    built(context).publish(context.follower())

    table.refresh()
    assert sorted(table.scan().to_arrow()["_offset"].to_pylist()) == [*range(20)]


def test_a_file_that_fits_no_partition_spec_says_so(tmp_path: Path) -> None:
    landed = Landed(tmp_path).land(CLICKS).settle()
    rewritten(landed, landed.keys("clicks")[0], with_column("name", ["a"] * 10))
    options = {"catalog": catalog_of(tmp_path), "partitionBy": ["name"]}
    route = {"route__pattern": "dt={date}/name={field:name}"}
    context = landed.context("Iceberg", options, **TYPED, **route)
    built(context).publish(context.follower())
    partitioned_anew(tmp_path)
    landed.land(CLICKS).settle()

    error = stalled(context)

    assert error.reason is Reason.DESTINATION_CONFLICT
    assert "Partition Field: name. lower_value='n10', upper_value='n19'; it fits none of the" in (
        str(error)
    )
