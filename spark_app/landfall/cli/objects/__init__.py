"""The arguments of the commands that show and check landed objects.

They import nothing heavy: help texts wait neither for NumPy nor for the models of a spec.
"""

import argparse
from pathlib import Path

from landfall.cli.options import NewCommand, add_group, add_json, add_report_options, add_topics
from landfall.cli.values import anchor, key_and_value, natural, time


def add_locate(new: NewCommand) -> None:
    """Add the command."""
    command = new(
        "locate",
        "find the object and row that hold a record",
        """\
Find the object and row that hold the record of an offset, as data or as a dead letter; rows
count from 1. If there is none, print why: the record was filtered or skipped, readers of
committed records do not see it, it is not landed yet, or landing began at a later offset.

Of a feed of files, name a file, with or without a row that counts from 1: the parts of the file
and their objects, or the object that holds the row. From an offset, a feed's file and row are
named, too; row R of part N has offset N * 1000000000 + R - 1.

Of a keyed table, name a key: its newest row in the table, and the object that holds the row.

examples:
  landfall locate group.yaml clicks 3 41877
  landfall locate group.yaml clicks 3 41877 --json
  landfall locate group.yaml hourly 2026/11/21/04.json.gz:17
  landfall locate group.yaml orders --key id=7
""",
    )
    add_group(command)
    command.add_argument("topic", metavar="TOPIC", help="the topic")
    command.add_argument(
        "place",
        metavar="PARTITION|FILE[:ROW]",
        nargs="?",
        help="its Kafka partition, or a file of a feed",
    )
    command.add_argument(
        "offset",
        type=natural,
        metavar="OFFSET",
        nargs="?",
        help="the offset to look up in the Kafka partition",
    )
    command.add_argument(
        "--key",
        metavar="COLUMN=VALUE",
        action="append",
        default=[],
        help="a key of a table with mode: Keyed; once for each of its columns",
    )
    add_json(command)


def add_cat(new: NewCommand) -> None:
    """Add the command."""
    command = new(
        "cat",
        "print the rows of a landed object",
        """\
Print an object, one row per line: the offset if the format stores offsets, then the payload.
Dead letters are printed as JSON. On a terminal, control characters of payloads are shown as
escapes, such as \\x1b.

examples:
  landfall cat group.yaml clicks/dt=2026-11-21/1_3_00000000000000041000.seq
  landfall cat --limit 5 group.yaml \\
    s3://logs/backup/clicks/dt=2026-11-21/1_3_00000000000000041000.seq
  landfall cat --format Json \\
    s3://logs/parsed/clicks/dt=2026-11-21/1_3_00000000000000041000.json.gz
""",
    )
    command.add_argument(
        "target",
        nargs="+",
        metavar="[GROUP.yaml] OBJECT",
        help="the group file and the key or URL of one of its objects, or the URL of any object",
    )
    command.add_argument(
        "--format",
        help="the object's format, if there is no group file: "
        "Text, Json, SequenceFile, Parquet, Orc, Avro, or package.module:Name",
    )
    command.add_argument(
        "--codec",
        help="the object's compression, if there is no group file and it is not the format's "
        "default",
    )
    command.add_argument(
        "--json",
        action="store_true",
        help="print each row as JSON with offset, timestamp, key and value",
    )
    command.add_argument("--limit", type=natural, metavar="N", help="stop after N rows")
    command.add_argument(
        "--raw",
        action="store_true",
        help="send control characters of payloads to a terminal, too, which may obey them",
    )


def add_manifest(new: NewCommand) -> None:
    """Add the command."""
    command = new(
        "manifest",
        "list the landed objects of a topic for other engines",
        """\
List the objects of a topic that are visible: committed, and completed. A slot of the ledger
gives the same list at any time, no matter what lands meanwhile.

Uris is one URL per line, for BigQuery's LOAD DATA, ClickHouse's s3() or DuckDB. Json adds rows,
bytes and partition values. Symlink is a manifest for each output partition, from which Presto,
Trino, Athena and Redshift Spectrum read a table, and Hive one of Json or Text: --write puts them
into the folder _symlink_format_manifest of the topic, -o below a folder of yours.

examples:
  landfall manifest group.yaml --topic orders
  landfall manifest s3://logs/parsed --topic orders --output-partition 'dt=2026-11-*'
  landfall manifest group.yaml --topic orders --slot 4711 --format Json -o orders.json
  landfall manifest group.yaml --topic orders --format Symlink --write
""",
    )
    _add_choice(command)
    command.add_argument(
        "--format",
        choices=("Uris", "Json", "Symlink"),
        default="Uris",
        help="what is written (default: %(default)s)",
    )
    command.add_argument(
        "--scheme",
        default="",
        metavar="NAME",
        help="the scheme of the URLs, such as s3a for Hadoop (default: the output root's)",
    )
    target = command.add_mutually_exclusive_group()
    target.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write to this file, or symlink manifests below this folder",
    )
    target.add_argument(
        "--write", action="store_true", help="write symlink manifests into the output root"
    )


def _add_choice(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "group",
        metavar="GROUP.yaml",
        help="the file that describes the consumer group, or the URL of its output root",
    )
    command.add_argument("--topic", required=True, metavar="TOPIC", help="the topic")
    command.add_argument(
        "--slot",
        type=natural,
        metavar="N",
        help="list what is visible at this slot of the ledger (default: its last)",
    )
    _add_output_partition(command)


def add_fsck(new: NewCommand) -> None:
    """Add the command."""
    command = new(
        "fsck",
        "check that ledger and objects keep every invariant",
        """\
Check the ledger from its first slot on, and compare the objects that it names with the objects
in the store. One line per invariant shows what was checked and where it is first violated.
Nothing is changed, and a driver may be running.

fsck reads no records. To read the landed records back, use verify; to compare them with Kafka,
use audit.

Slots are chained by hashes without a key. So a program that may write to the bucket can change a
slot, its objects, and all hashes after it; only a hash that is kept elsewhere shows that. With
--anchor, all slots up to the anchor's are those that were there when it was taken. The operator
keeps one in the resource's status.ledger; status --json shows the one of the last slot.

examples:
  landfall fsck group.yaml
  landfall fsck group.yaml --anchor 3/120:9f86d081884c7d659a2feaa0c55ad015…
  landfall fsck group.yaml --deep              # download every object, compare checksums
""",
    )
    add_group(command)
    add_json(command)
    command.add_argument(
        "--deep", action="store_true", help="read every object and compare its checksum"
    )
    command.add_argument(
        "--anchor",
        action="append",
        default=[],
        type=anchor,
        metavar="EPOCH/SLOT:SHA256",
        help="a slot and its hash, as they were once; may be given several times",
    )


def add_verify(new: NewCommand) -> None:
    """Add the command."""
    command = new(
        "verify",
        "read everything back: is every record there exactly once?",
        """\
Read the landed objects back with the group's own format and compare them with the ledger:
every committed record must be there exactly once. Formats that store offsets (SequenceFile,
Parquet) are checked offset by offset; for other formats, the rows of each object are counted.
Nothing is changed, and a driver may be running.

--kafka also compares every payload with the record in Kafka, as far as Kafka still holds it.
Prefer `landfall audit` for that: it shares no code with the writer, and it checks the output
partition of each record too. Use verify --kafka where audit cannot read the objects, because
their format or store is loaded from a Python module. It refuses groups that land other bytes
than Kafka holds: with transforms, with typed columns, or with JSON made of other payloads.

examples:
  landfall verify group.yaml
  landfall verify group.yaml --kafka
  landfall verify group.yaml clicks orders --partitions
""",
    )
    add_group(command)
    command.add_argument(
        "--kafka",
        action="store_true",
        help="also read the landed ranges from Kafka and compare the payloads",
    )
    add_topics(command)
    add_report_options(command)


_ABOUT_SCAN = """\
Read landed objects of a topic and name those that cannot be read, or that have another number of
rows than the ledger records. Where rows are the payloads, they are decoded and routed by the
present group file: objects are named, too, that hold rows of another output partition, rows that
would be dead letters today, and rows that today's transforms leave out. Nothing is changed.

With --backup, each range is also decoded from the payloads that another group has landed of it,
and every row is compared, no matter what it was made of.

The ledger lists the objects. --from and --until are times at which they were committed: the
start of a deployment with bad code, and its end, as `landfall log --kind open` lists
them.

examples:
  landfall scan group.yaml --topic clicks
  landfall scan group.yaml --topic clicks --from 2026-11-21T10:00Z --until 2026-11-21T14:30Z
  landfall scan group.yaml --topic clicks --output-partition 'dt=2026-11-21' --json > wrong.json
  landfall scan group.yaml --topic clicks --backup backup.yaml

--json lists for each wrong object the range of offsets that it was landed with, for a backfill.
"""


def add_scan(new: NewCommand) -> None:
    """Add the command."""
    command = new(
        "scan",
        "find landed objects that are wrong by today's spec",
        _ABOUT_SCAN,
    )
    add_group(command)
    command.add_argument("--topic", required=True, metavar="TOPIC", help="the topic")
    command.add_argument(
        "--from",
        dest="start",
        type=time,
        metavar="TIME",
        help="only objects that were committed at this time or later; UTC if it has no time zone",
    )
    command.add_argument(
        "--until", type=time, metavar="TIME", help="only objects that were committed before"
    )
    _add_output_partition(command)
    command.add_argument(
        "--backup",
        type=Path,
        metavar="OTHER.yaml",
        help="compare rows with what today's decoder makes of the payloads that this group landed",
    )
    _add_plugin(command)
    add_json(command)


_ABOUT_SQL = """\
Answer a query in DuckDB's SQL. Each topic is a table that has the rows of its landed objects, each
row once, at the ledger's last slot; objects of other programs and uploads that were never committed
are in none. Quote the name of a topic with a dot or a dash: "web.clicks". With --tail, tables also
have Kafka's records that have not landed yet, up to where Kafka ends now. dead_letters is a table
of the dead letters of all topics, with the columns stage, error and replayed.

Only the columns that the query needs are read, of objects in folders that its WHERE admits. To know
the columns, the footers of all objects are read; --output-partition, --where, --from and --until
choose fewer objects. Rows of JSON objects have one column, value: value->>'$.user.id' is a field.
Times are in UTC. A query may read files, and COPY (SELECT …) TO 'file.parquet' writes one. It needs
the extra sql.

examples:
  landfall sql group.yaml 'SELECT dt, count(*) FROM clicks GROUP BY dt ORDER BY dt'
  landfall sql group.yaml --where dt=2026-11-21 'SELECT * FROM clicks LIMIT 5' --json
  landfall sql group.yaml --tail 'SELECT _landfall_source, count(*) FROM clicks GROUP BY ALL'
  landfall sql group.yaml 'SELECT topic, error, count(*) FROM dead_letters GROUP BY ALL'
  landfall sql group.yaml "COPY (SELECT id, name FROM clicks) TO 'clicks.parquet'"
"""


def add_sql(new: NewCommand) -> None:
    """Add the command."""
    command = new("sql", "answer a query over landed rows, and Kafka's tail", _ABOUT_SQL)
    add_group(command)
    command.add_argument("query", metavar="QUERY", help="one statement of DuckDB's SQL")
    command.add_argument(
        "--tail",
        action="store_true",
        help="read Kafka's records that have not landed, too, as the rows that they will be",
    )
    _add_output_partition(command)
    command.add_argument(
        "--where",
        type=key_and_value,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="only folders NAME=VALUE; may be repeated, also for several values of a name",
    )
    command.add_argument(
        "--from",
        dest="start",
        type=time,
        metavar="TIME",
        help="only output partitions that may hold event times from here on; UTC if it has no "
        "time zone",
    )
    command.add_argument(
        "--until", type=time, metavar="TIME", help="only output partitions of earlier times"
    )
    _add_plugin(command)
    printed = command.add_mutually_exclusive_group()
    printed.add_argument("--json", action="store_true", help="print each row as a line of JSON")
    printed.add_argument("--csv", action="store_true", help="print all rows as CSV")


def _add_output_partition(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--output-partition",
        default="",
        metavar="FOLDERS",
        help="only this output partition, or those below these folders; * stands for any text",
    )


def _add_plugin(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="import this format if a former spec names it, which lies in the bucket; "
        "may be repeated",
    )
