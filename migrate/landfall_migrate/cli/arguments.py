"""The arguments of ``landfall migrate``, and the help texts that explain them.

Like ``landfall.cli.parser``, which calls ``add``, this module imports nothing heavy.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from landfall.cli.values import key_and_value, natural

NewCommand = Callable[[str, str, str], argparse.ArgumentParser]
"""Adds a command, given its name, a summary and a description."""

_REPORT = """
The group goes to standard output, as YAML that `kubectl apply` and `landfall run` take. A report
goes to standard error, with each key of the input: which field has taken it, in which Secret its
value belongs, why it is no longer needed, why it is not supported and what to do instead, or that
it is unknown. No value of a secret is printed anywhere. The exit code is 6 if a key is not
supported or unknown, or something is missing: other things may then be landed than before.
"""


def add(new: NewCommand, nested: Callable[[Any], NewCommand]) -> None:
    """Add the command.

    Args:
        new: adds a command.
        nested: what adds commands below one, given its subparsers.
    """
    command = new(
        "migrate",
        "make a group of another program's settings, and check the join",
        """\
Make a group file of the settings of Secor or of Kafka Connect's S3 sink, and check, once both
have landed, that the new objects begin where the old ones end.

examples:
  landfall migrate secor secor.prod.partition.properties --output group.yaml
  landfall migrate connect s3-sink.json --bootstrap-servers kafka:9092 --output group.yaml
  landfall migrate check group.yaml --from s3://logs/backup
""",
    )
    programs = command.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (_secor, _connect, _check):
        add(nested(programs))


def _secor(new: NewCommand) -> None:
    command = new(
        "secor",
        "make a group of Secor's properties",
        f"""\
Make a group file of Secor's properties, as Secor reads them: with `include`, lists, variables, -D
and, with --env, the variables of Secor's image. What Secor does by default and Landfall does not
is written out.
{_REPORT}
examples:
  landfall migrate secor secor.prod.partition.properties > group.yaml
  landfall migrate secor secor.prod.backup.properties -D secor.s3.bucket=logs --name backup
  landfall migrate secor secor.properties --offsets offsets.txt --output group.yaml
""",
    )
    command.set_defaults(code="landfall_migrate.cli.command:migrate", program="secor")
    command.add_argument("file", metavar="FILE.properties", help="the file that -Dconfig names")
    _add_definitions(
        command,
        "key=value",
        "as on Secor's command line; may be repeated, and counts more than the file",
    )
    command.add_argument(
        "--env",
        action="store_true",
        help="take the variables of Secor's image from the environment, such as SECOR_GROUP",
    )
    command.add_argument(
        "--finalizer",
        action="store_true",
        help="Secor's finalizer runs, too: mark complete hours by _SUCCESS",
    )
    _add_group_options(command)


def _add_definitions(command: argparse.ArgumentParser, metavar: str, text: str) -> None:
    command.add_argument(
        "-D",
        dest="options",
        action="append",
        default=[],
        type=key_and_value,
        metavar=metavar,
        help=text,
    )


def _connect(new: NewCommand) -> None:
    command = new(
        "connect",
        "make a group of the configuration of Connect's S3 sink",
        f"""\
Make a group file of the configuration of Confluent's S3 sink: the JSON that Connect's API takes or
returns, with the configuration itself or with `name` and `config`, the properties file of a
standalone worker, or a KafkaConnector of Strimzi in YAML. Kafka's address and often the converters
are in the worker's own file: give it by --worker. Of that file, nothing else counts or is reported.
{_REPORT}
examples:
  landfall migrate connect s3-sink.json --worker connect-distributed.properties > group.yaml
  landfall migrate connect s3-sink.json --bootstrap-servers kafka:9092 -D TOPIC=clicks
  curl -s connect:8083/connectors/s3-sink > s3-sink.json
""",
    )
    command.set_defaults(code="landfall_migrate.cli.command:migrate", program="connect")
    command.add_argument(
        "file", metavar="FILE", help="the .json, .properties, .yaml or .yml file of the connector"
    )
    command.add_argument(
        "--worker",
        metavar="FILE",
        help="the worker's .properties file, or a KafkaConnect of Strimzi in .yaml",
    )
    _add_definitions(
        command,
        "NAME=value",
        "the value of ${NAME} in the input, or else of the key NAME; may be repeated",
    )
    command.add_argument(
        "--env",
        action="store_true",
        help="take what -D does not give to ${NAME} and ${env:NAME} from the environment",
    )
    _add_group_options(command)


def _add_group_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--name", default="", help="the group's name (default: from the input)")
    command.add_argument("--namespace", metavar="NS", help="the group's namespace")
    command.add_argument(
        "--generation",
        type=natural,
        metavar="N",
        help="the group's generation (default: one above the input's)",
    )
    command.add_argument(
        "--bootstrap-servers",
        default="",
        metavar="HOST:PORT",
        help="Kafka's addresses, instead of those in the input",
    )
    command.add_argument(
        "--offsets",
        type=Path,
        metavar="FILE",
        help="where the old program stopped: what kafka-consumer-groups.sh --describe prints, or "
        "a dump of ZooKeeper with paths and values, as JSON or in lines",
    )
    command.add_argument(
        "--output", type=Path, metavar="FILE", help="write the group here (default: print it)"
    )
    command.add_argument("--json", action="store_true", help="print the report as one JSON object")


def _check(new: NewCommand) -> None:
    command = new(
        "check",
        "check that new objects begin where the old ones end",
        """\
Compare the last objects that Secor or Connect's S3 sink left with the offset at which Landfall's
ledger begins, or without a ledger spec.source.kafka.startingOffsets, and read the first objects
that Landfall has landed. One line per topic partition names the last old object and the first new
one, and whether they join, or which offsets are in neither (gap) or in both (overlap).
An object of Secor with the group's generation or a higher one is named too: Landfall could give
its name again.

SequenceFiles store offsets, so they prove it. Of other formats the rows are counted: an overlap is
then proven, and a join or a gap holds if each offset had a row. Offsets without one are markers of
transactions, what compaction removed, and messages that the old program dropped. Nothing is
changed, and a driver may be running.

examples:
  landfall migrate check group.yaml --from s3://logs/backup
  landfall migrate check group.yaml --from s3://logs/backup --last 1 --format Text
""",
    )
    command.set_defaults(code="landfall_migrate.cli.command:migrate", program="check")
    command.add_argument(
        "group", type=Path, metavar="GROUP.yaml", help="the file that describes the consumer group"
    )
    command.add_argument(
        "--from",
        dest="old_url",
        required=True,
        metavar="URL",
        help="the root of the old objects, with the folders of topics; accessed as output.url is",
    )
    command.add_argument(
        "--last",
        type=natural,
        metavar="GENERATION",
        help="the last generation of Secor (default: one below the first of the group, or any if "
        "--from is not output.url)",
    )
    command.add_argument("--format", help="the format of the old objects (default: the group's)")
    command.add_argument(
        "--json", action="store_true", help="print one JSON object per topic partition"
    )
