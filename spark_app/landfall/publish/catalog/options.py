"""The options that catalogs of files have in common, and the publisher built from them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import msgspec

from landfall.api.spec import ColumnSource, GroupSpec, TopicSpecs
from landfall.publish.catalog import Catalog, Storage
from landfall.publish.catalog.files import FILES_OF_COLUMNS, STORAGES, WHOLE_VALUE, ColumnsOf
from landfall.publish.catalog.layout import TableLayout
from landfall.publish.catalog.naming import TableNaming
from landfall.publish.catalog.step import FinishedOnly, PartitionStep
from landfall.publish.context import Context
from landfall.publish.steps import StepPublisher
from landfall.publish.table_names import destination

_OURS = ("landfall.", "external")
"""Prefixes of properties that users may not set."""


class TableOptions(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    """Options of every catalog of files.

    Attributes:
        database: template of the database's name.
        table: template of the table's name.
        tables: names of tables by topic, instead of the template.
        create_table: whether tables that do not exist are created.
        create_database: whether databases that do not exist are created.
        table_properties: of tables that are created.
        columns: Hive types by column name, instead of the objects' types.
        serde: class that reads the files, instead of the format's.
        serde_properties: its parameters.
        partitions: when a folder becomes one: with its first object, or once it is complete.
        other_folders: how to treat objects in folders of an earlier route.
    """

    database: str = "default"
    table: str = "{topic}"
    tables: dict[str, str] = {}
    create_table: bool = True
    create_database: bool = False
    table_properties: dict[str, str] = {}
    columns: dict[str, str] = {}
    serde: str = ""
    serde_properties: dict[str, str] = {}
    partitions: Literal["WhenLanded", "WhenFinished"] = "WhenLanded"
    other_folders: Literal["Stall", "Skip"] = "Stall"


def step_publisher(
    options: TableOptions, context: Context, catalog: Catalog, scheme: str, where: tuple[str, ...]
) -> StepPublisher:
    """Return a publisher for the tables of a catalog.

    Args:
        options: how tables are created.
        context: what the publisher is built from.
        catalog: has the tables.
        scheme: of locations in S3.
        where: what identifies the destination, in addition to the names of tables.

    Raises:
        ValueError: an option is wrong, or does not fit the group.
    """
    naming = TableNaming(options.database, options.table, options.tables)
    naming.check()
    for name in options.table_properties:
        if name.lower().startswith(_OURS):
            raise ValueError(f"option tableProperties: {name} is not for users to set")
    specs = TopicSpecs.of(context.group.spec)
    for _, spec in specs.used():
        _check(options, naming, spec)
    layout = TableLayout(
        context=context,
        naming=naming,
        specs=specs,
        files=ColumnsOf(context.store, specs.for_topic, _lower(options.columns)),
        scheme=scheme,
        properties=options.table_properties,
        storage={name: _storage(options, storage) for name, storage in STORAGES.items()},
        skips_other_folders=options.other_folders == "Skip",
    )
    finished = _finished_only(context) if options.partitions == "WhenFinished" else None
    mark = f"landfall.{context.group.metadata.name}.{context.lane}.whole"
    step = PartitionStep(
        catalog=catalog,
        layout=layout,
        new_follower=context.follower,
        mark=mark,
        create_tables=options.create_table,
        finished_only=finished,
    )
    names = (
        *where,
        options.partitions,
        options.database,
        options.table,
        json.dumps(options.tables, sort_keys=True),
    )
    cursor = context.cursor(destination(context, *names))
    return StepPublisher(context, cursor, step, goes_on=True)


def check_scheme(scheme: str) -> None:
    """Return if this may be the scheme of locations in S3.

    Raises:
        ValueError: it may not.
    """
    if scheme not in {"s3", "s3a", "s3n"}:
        raise ValueError(f"option scheme: {scheme!r} is not s3, s3a or s3n")


def _finished_only(context: Context) -> FinishedOnly:
    spec = context.group.spec
    if spec.completeness is None:
        raise ValueError(
            "option partitions: spec.completeness is not set, so no hour is ever complete"
        )
    if any(topic_spec.route.topic_path for _, topic_spec in TopicSpecs.of(spec).used()):
        raise ValueError("option partitions: WhenFinished does not go with route.topicPath")
    chosen = FinishedOnly(context)
    for topic in spec.source.topics or ("any topic",):
        chosen.check(topic)
    return chosen


def _check(options: TableOptions, naming: TableNaming, spec: GroupSpec) -> None:
    try:
        naming.check_route(spec)
    except ValueError as error:
        raise (
            error if str(error).startswith("option") else ValueError(f"options: {error}")
        ) from error
    format_ = spec.output.format
    if format_ not in STORAGES:
        raise ValueError(f"options: a table cannot read output.format {format_!r}")
    declared = spec.decode.columns and spec.output.columns is ColumnSource.DECLARED
    if not (options.columns or declared or format_ in {*FILES_OF_COLUMNS, *WHOLE_VALUE}):
        raise ValueError(
            f"option columns: defines which columns a table of {format_} has, where decode.columns "
            "does not, such as {id: bigint, name: string}"
        )


def _lower(columns: Mapping[str, str]) -> Mapping[str, str]:
    return {name.lower(): type_.replace(" ", "").lower() for name, type_ in columns.items()}


def _storage(options: TableOptions, storage: Storage) -> Storage:
    if options.serde:
        return replace(storage, serde=options.serde, parameters=options.serde_properties)
    return replace(storage, parameters={**storage.parameters, **options.serde_properties})
