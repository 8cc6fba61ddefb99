"""The arguments of the commands that write, read and try a group file.

They import nothing heavy: help texts wait neither for NumPy nor for the models of a spec.
"""

import argparse
from pathlib import Path

from landfall.cli.options import NewCommand, add_group, add_json
from landfall.cli.values import instant, key_and_value, natural

_ABOUT_INIT = """\
Write a group file for a topic. The first and the last 50 records of the topic are read, without a
consumer group, and the decoder, the field that dates a record and the format of objects are
guessed from them. The guess is tried on these records, as by `landfall try`: how many would land,
be left out or be dead letters is printed, and is in the file. Nothing is landed. With --records
the lines of a file are looked at instead, with --offline nothing is. The file passes
`landfall check --offline`, and comments in it name what else most groups set. Next to it is the
schema for editors, as `landfall schema` prints it.

examples:
  landfall init --topic app.web --bootstrap-servers kafka:9092 --url s3://logs/parsed
  landfall init --topic app.web --url file:///tmp/landed web.yaml      # Kafka is $LANDFALL_KAFKA
  landfall init --topic orders --url s3://lake/orders --schema-registry http://registry:8081
  landfall init --topic app.web --url s3://logs/parsed -D security.protocol=SSL -   # print it
"""


def add_init(new: NewCommand) -> None:
    """Add the command."""
    command = new("init", "write a group file for a topic", _ABOUT_INIT)
    command.add_argument(
        "file",
        nargs="?",
        type=Path,
        default=Path("group.yaml"),
        metavar="FILE",
        help="what to write (default: group.yaml); - prints the group",
    )
    command.add_argument("--topic", required=True, metavar="TOPIC", help="the topic to land")
    command.add_argument(
        "--url", required=True, metavar="URL", help="the output root, such as s3://logs/parsed"
    )
    command.add_argument(
        "--bootstrap-servers",
        default="",
        metavar="HOST:PORT",
        help="Kafka's addresses (default: ${LANDFALL_KAFKA})",
    )
    command.add_argument(
        "-D",
        dest="properties",
        action="append",
        default=[],
        type=key_and_value,
        metavar="key=value",
        help="a property of librdkafka, such as security.protocol=SSL; ${NAME} in it is an "
        "environment variable; may be repeated",
    )
    command.add_argument(
        "--schema-registry", default="", metavar="URL", help="the registry that has the schemas"
    )
    command.add_argument("--name", default="", help="the group's name (default: from the topic)")
    command.add_argument(
        "--format", default="", help="the format of objects (default: what fits the records)"
    )
    looks = command.add_mutually_exclusive_group()
    looks.add_argument(
        "--records", type=Path, metavar="FILE", help="look at the lines of a file, not at the topic"
    )
    looks.add_argument("--offline", action="store_true", help="ask no server")
    command.add_argument("--force", action="store_true", help="replace a file that exists")
    add_json(command)


def add_check(new: NewCommand) -> None:
    """Add the command."""
    command = new(
        "check",
        "is a group file right, and does everything answer that it names?",
        """\
Check group files before they are run or applied. All faults are printed, one line each: file,
field, what is wrong. Options of decoders, transforms, formats and publishers are checked as a
driver does at its start; then Kafka (login, topics, the right to read), the store (what a ledger
needs of it, rights, whose output root it is), schema registries and the servers of publishers are
asked, also if something else in the file is wrong. If nothing is, a record is tried. Nothing is
landed; the store's test writes a few small objects and deletes them.

Code that a file names is imported, as by run. With --offline no server is asked, as in a
pre-commit hook or where a change is reviewed.

With --lifecycle nothing is checked: printed are the lifecycle rules of each bucket (S3, Google
Cloud Storage) that delete what nobody deletes once no driver of the group runs.

Exit code 2: something is to be changed, in the file or in what it names. 5: servers do not
answer, and nothing else is wrong.

examples:
  landfall check group.yaml
  landfall check --offline groups/*.yaml
  landfall check group.yaml --json | jq -r '.faults[].message'
  landfall check group.yaml --lifecycle | jq '."s3://logs"' > rules.json
""",
    )
    command.add_argument(
        "groups",
        nargs="+",
        type=Path,
        metavar="GROUP.yaml",
        help="files that each describe a consumer group",
    )
    command.add_argument("--offline", action="store_true", help="ask no server")
    command.add_argument(
        "--lifecycle", action="store_true", help="print lifecycle rules for the buckets, as JSON"
    )
    add_json(command)


def add_explain(new: NewCommand) -> None:
    """Add the command."""
    command = new(
        "explain",
        "print what holds for a topic, and the field that sets it",
        """\
Print the part of the spec that holds for a topic: the group's own fields, with the first entry
of spec.topics that matches. After each value is its source: an entry, the group,
or the default. Nothing but the file is read.

examples:
  landfall explain group.yaml orders
  landfall explain group.yaml orders | yq .output.format
""",
    )
    add_group(command)
    command.add_argument("topic", metavar="TOPIC", help="the topic")
    add_json(command, "print one JSON object, without where values come from")


def add_try(new: NewCommand) -> None:
    """Add the command."""
    command = new(
        "try",
        "show what would become of a topic's records, stage by stage",
        """\
Show records before and after the decoder, after each transform, and the object they would be
in, or why they would be dead letters. Nothing is landed, no consumer group is joined, and no
offset is committed. Without --file, the last records of the topic are read from Kafka, or the
rows of the first files of a feed; row R of the Nth part has offset N * 1000000000 + R.

A line of a file is a payload as text or as hexadecimal digits, or, with --input json, a
record: {"value": …, "key": …, "timestamp": MILLISECONDS, "headers": {…}}, where a value is
text, {"base64": "…"}, or any other JSON, which is then the payload.

examples:
  landfall try group.yaml --topic orders --limit 5
  landfall try group.yaml --topic orders --partition 3 --offset 41877
  landfall try group.yaml --topic hourly --only 2026/11/21/04.json.gz
  landfall try group.yaml --topic orders --file payloads.txt
  landfall cat group.yaml _landfall/shop/dead-letters/orders/1_3_00000000000000041000.parquet |
    jq -c '{value, key}' | landfall try group.yaml --topic orders --file - --input json
""",
    )
    add_group(command)
    command.add_argument("--topic", help="the topic (default: the group's, if it has one)")
    command.add_argument(
        "--limit", type=natural, default=20, metavar="N", help="show N records (default: 20)"
    )
    command.add_argument(
        "--partition",
        type=natural,
        metavar="N",
        help="read this Kafka partition (default: the first ones that have records)",
    )
    command.add_argument(
        "--offset", type=natural, metavar="N", help="begin here (default: at the last records)"
    )
    command.add_argument(
        "--only", metavar="NAME", help="read this file of a feed (default: the first ones)"
    )
    _add_file(command)
    add_json(command, "print one JSON object per record")


def _add_file(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--file",
        metavar="FILE",
        help="read records from a file instead, or from - (standard input)",
    )
    command.add_argument(
        "--input",
        choices=("text", "hex", "json"),
        default="text",
        help="what a line of the file is (default: text)",
    )
    command.add_argument(
        "--timestamp",
        type=instant,
        metavar="TIME",
        help="the Kafka timestamp of records in a file that have none (default: now)",
    )


def add_schema(new: NewCommand) -> None:
    """Add the command."""
    command = new(
        "schema",
        "print the JSON schema of a group file, for editors",
        """\
Print the JSON schema (draft-07) of a resource of this version. With it, editors complete fields,
show what they mean, and underline a misspelled field or a wrong value. `landfall init` writes the
schema next to the group, whose first line names it, as editors with yaml-language-server expect:

  # yaml-language-server: $schema=consumergroup.schema.json

`landfall check` knows more: rules about several fields, and the options of decoders.

examples:
  landfall schema ConsumerGroup > consumergroup.schema.json
  landfall schema Backfill > backfill.schema.json
""",
    )
    command.add_argument(
        "kind",
        choices=["ConsumerGroup", "Backfill"],
        help="what the file describes",
    )


def add_completion(new: NewCommand) -> None:
    """Add the command."""
    command = new(
        "completion",
        "print a script that completes commands in a shell",
        """\
Print a script for a shell that completes the commands and options of this version.

examples:
  source <(landfall completion bash)        # in ~/.bashrc
  source <(landfall completion zsh)         # in ~/.zshrc
  landfall completion fish | source         # in ~/.config/fish/config.fish
""",
    )
    command.add_argument("shell", choices=["bash", "zsh", "fish"], help="the shell")
