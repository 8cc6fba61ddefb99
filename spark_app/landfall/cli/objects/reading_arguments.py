"""The arguments of ``manifest``, which lists what landed for other programs."""

import argparse
from pathlib import Path

from landfall.cli.author import NewCommand
from landfall.cli.values import natural


def add_reading_commands(new_command: NewCommand) -> None:
    """Add the commands."""
    command = new_command(
        "manifest",
        "list the landed objects of a topic for other engines",
        """\
List the objects of a topic that are visible: committed, and completed. A slot of the ledger
gives the same list at any time, whatever lands meanwhile.

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
        help="the scheme of the URLs, such as s3a for Hadoop (default: that of the output root)",
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
    command.add_argument(
        "--output-partition",
        default="",
        metavar="FOLDERS",
        help="only this output partition, or those below these folders; * stands for any text",
    )
