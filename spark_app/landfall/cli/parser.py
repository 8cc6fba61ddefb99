"""The arguments of every command, and the help texts that explain them.

This module imports nothing heavy: ``landfall --help`` must not wait for NumPy or Spark.
"""

import argparse
import re
from functools import partial
from pathlib import Path
from typing import Any

from landfall import __version__
from landfall.api.contract import LedgerAnchor
from landfall.cli.author import add_topic_commands
from landfall.cli.author.init_arguments import add_init
from landfall.cli.decide import add_json, add_verbs
from landfall.cli.distributions import add_commands
from landfall.cli.feeds import add_files
from landfall.cli.land import add_backfill
from landfall.cli.land.publish_arguments import add_publish
from landfall.cli.land.range_arguments import add_range
from landfall.cli.look import add_log, add_ls, add_top
from landfall.cli.objects import add_scan
from landfall.cli.objects.reading_arguments import add_reading_commands
from landfall.cli.parsing import Parser, code_of, commands_text
from landfall.cli.values import natural, port

ABOUT = """\
Land Kafka topics in S3 exactly once.

GROUP.yaml describes a consumer group: the topics to read, how to decode and route their
records, and where to write them. It is the document that `kubectl apply` takes. ${NAME} and
${NAME:-default} in it are replaced with environment variables; $${ is a literal ${.

A group file is a program: it names Python modules, and functions that are called with options of
its choice, and may send environment variables to a server that it names. Read a file of somebody
else before you give it to run, check, try, verify, scan or a backfill. explain only shows what it
says: it imports nothing and connects to nothing.
"""

EXIT_CODES = """\
exit codes:
  0  success: done, caught up, or drained without an end to reach
  1  an unexpected error: please report it
  2  the command line or the group file is invalid; the message names the field
  3  fenced: another driver took over, and this one wrote nothing after that
  4  stalled: nothing can continue until someone acts; the message says on what
  5  the store, Kafka or Spark is unavailable; trying again may succeed
  6  a check found a fault
  7  a check had nothing to check: no ledger, no such topic, or nothing landed
  8  audit found no fault, and could not check everything
  9  stopped before the end that was given; run it again to land the rest
 10  a request, such as undo or promote, was refused; nothing was recorded
"""

_LOCAL = r"local(\[(\*|[1-9][0-9]{0,3})(,[1-9][0-9]{0,3})?\])?"
_MASTER = re.compile(rf"{_LOCAL}|spark://[^/\s:]+:[0-9]+(,[^/\s:]+:[0-9]+)*|k8s://\S+|yarn")


def parser() -> argparse.ArgumentParser:
    """Everything ``landfall`` accepts; ``command`` of the parsed arguments names the command."""
    root = Parser(
        prog="landfall",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action="version", version=f"landfall {__version__}")
    commands = root.add_subparsers(
        title="commands", metavar="COMMAND", required=True, help="see below"
    )
    for add in (_run, _check, _status, _verify, _fsck, _locate, _cat):
        add(commands)
    add_init(partial(_command, commands))
    add_topic_commands(partial(_command, commands))
    add_publish(partial(_command, commands))
    add_reading_commands(partial(_command, commands))
    add_scan(partial(_command, commands))
    add_log(partial(_command, commands))
    add_ls(partial(_command, commands))
    add_top(partial(_command, commands))
    add_verbs(partial(_command, commands))
    add_files(partial(_command, commands), partial(partial, _command))
    add_backfill(partial(_command, commands), partial(partial, _command))
    add_commands(partial(_command, commands), partial(partial, _command))
    _completion(commands)
    _add_output(commands)
    root.epilog = (
        f"{commands_text(commands)}\n\n"
        f"Run `landfall COMMAND --help` for the options of a command.\n\n{EXIT_CODES}"
    )
    commands._choices_actions.clear()  # noqa: SLF001  # they are listed by what they are for
    return root


class _Json(argparse.Action):
    """``-o json`` of kubectl and helm: the same as ``--json``."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        del parser, values, option_string
        namespace.json = True


def _add_output(commands: Any) -> None:
    """Let every command that takes ``--json`` take ``-o json``, too."""
    for command in commands.choices.values():
        actions = list(command._actions)  # noqa: SLF001  # argparse lists them nowhere else
        for action in actions:
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  # as above
                _add_output(action)
        taken = {option for action in actions for option in action.option_strings}
        if "--json" in taken and not {"-o", "--output"} & taken:  # where those name a file
            command.add_argument(
                *("-o", "--output"),
                action=_Json,
                choices=["json"],
                default=argparse.SUPPRESS,
                help="the same as --json",
            )


def spark_master(text: str) -> str:
    """A Spark master's URL.

    Raises:
        ArgumentTypeError: the text has no form that Spark knows.
    """
    if not _MASTER.fullmatch(text):
        raise argparse.ArgumentTypeError(
            "must be local, local[N], local[*], spark://HOST:PORT, k8s://https://HOST:PORT or "
            f"yarn, got {text!r}"
        )
    return text


def _command(commands: Any, name: str, summary: str, about: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=about,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(code=code_of(command.prog.partition(" ")[2]), parser=command)
    return command


def _completion(commands: Any) -> None:
    command = _command(
        commands,
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


def _add_group(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "group", type=Path, metavar="GROUP.yaml", help="the file that describes the consumer group"
    )


def _add_topics(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "topics", nargs="*", metavar="TOPIC", help="check only these topics (default: all)"
    )


def _add_report_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--partitions",
        action="store_true",
        help="print a line per topic partition instead of one per topic",
    )
    command.add_argument(
        "--json", action="store_true", help="print one JSON object, with every topic partition"
    )


def _add_control(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--control-port",
        type=port,
        metavar="N",
        help="take requests such as `landfall skip --driver http://localhost:N` on this port",
    )
    command.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="the token that such requests need; made, for you alone, if there is no such file",
    )


def _run(commands: Any) -> None:
    command = _command(
        commands,
        "run",
        "land the group's topics on local Spark",
        """\
Land the group's topics until stopped. SIGTERM or Ctrl-C drains: the driver finishes the
batches in flight, hands the group over and exits. A second signal ends it at once. However and
whenever the driver ends, no record is lost and none is landed twice.

examples:
  landfall run group.yaml
  landfall run group.yaml --until-caught-up    # land what the topics hold now, then stop
  landfall run group.yaml --until 2026-11-21T05:00Z    # what Kafka dates before, then stop
  landfall run group.yaml --master 'local[4]' --http-port 8080 &
  curl localhost:8080/status
  landfall run group.yaml --control-port 8081 --token-file token &
  landfall skip clicks/3 --driver http://localhost:8081 --token-file token --why 'INC-12'
""",
    )
    _add_group(command)
    add_range(command)
    command.add_argument(
        "--master",
        type=spark_master,
        default="local[*]",
        help="the Spark master; local[N] uses N cores of this machine (default: %(default)s)",
    )
    command.add_argument(
        "--http-port",
        type=port,
        metavar="N",
        help="the port of /status and /metrics; 0 takes any free port "
        "(default: spec.tuning.httpPort, or any free port if that one is taken)",
    )
    _add_control(command)
    add_json(command, "print each status as a JSON object on a line of standard output")
    command.add_argument(
        "--verbose", action="store_true", help="log every event, not only warnings and errors"
    )


def _check(commands: Any) -> None:
    command = _command(
        commands,
        "check",
        "is a group file right, and does everything answer that it names?",
        """\
Check group files before they are run or applied. All faults are printed, one line each: file,
field, what is wrong. Options of decoders, transforms, formats and publishers are checked as a
driver does at its start; then Kafka (login, topics, the right to read), the store (what a ledger
needs of it, rights, whose output root it is), schema registries and the servers of publishers are
asked. Nothing is landed; the store's test writes a few small objects and deletes them.

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
    command.add_argument("--json", action="store_true", help="print one JSON object")


def _status(commands: Any) -> None:
    command = _command(
        commands,
        "status",
        "show checkpoints and lag, from the ledger and Kafka",
        """\
Show the group's checkpoints, lag and totals. This command reads the ledger and asks Kafka for
the end offsets, so it works whether or not a driver is running.

examples:
  landfall status group.yaml
  landfall status group.yaml --partitions
  landfall status group.yaml --json | jq .lag_records
""",
    )
    _add_group(command)
    _add_report_options(command)


def _fsck(commands: Any) -> None:
    command = _command(
        commands,
        "fsck",
        "check that ledger and objects keep every invariant",
        """\
Check the ledger from its first slot on, and compare the objects that it names with the objects
in the store. One line per invariant says what was checked and where it is first violated.
Nothing is changed, and a driver may be running.

fsck reads no records. To read the landed records back, use verify; to compare them with Kafka,
use audit.

Slots are chained by hashes without a key. So whoever may write to the bucket can change a slot,
its objects, and all hashes after it; only a hash that is kept elsewhere shows that. With --anchor,
all slots up to the anchor's are those that were there when it was taken. The operator keeps one in
the resource's status.ledger; status --json shows that of the last slot.

examples:
  landfall fsck group.yaml
  landfall fsck group.yaml --anchor 3/120:9f86d081884c7d659a2feaa0c55ad015…
  landfall fsck group.yaml --deep              # download every object, compare checksums
""",
    )
    _add_group(command)
    add_json(command)
    command.add_argument(
        "--deep", action="store_true", help="read every object and compare its checksum"
    )
    command.add_argument(
        "--anchor",
        action="append",
        default=[],
        type=_anchor,
        metavar="EPOCH/SLOT:SHA256",
        help="a slot and its hash, as they were once; may be given several times",
    )


def _anchor(text: str) -> LedgerAnchor:
    try:
        return LedgerAnchor.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _locate(commands: Any) -> None:
    command = _command(
        commands,
        "locate",
        "find the object and row that hold a record",
        """\
Find the object and row that hold the record of an offset, as data or as a dead letter; rows
count from 1. If there is none, say why: the record was filtered or skipped, readers of
committed records do not see it, it is not landed yet, or landing began at a later offset.

Of a feed of files, name a file, with or without a row that counts from 1: the parts of the file
and their objects, or the object that holds the row. From an offset, a feed's file and row are
named, too; row R of part N has offset N * 1000000000 + R - 1.

examples:
  landfall locate group.yaml clicks 3 41877
  landfall locate group.yaml clicks 3 41877 --json
  landfall locate group.yaml hourly 2026/11/21/04.json.gz:17
""",
    )
    _add_group(command)
    command.add_argument("topic", metavar="TOPIC", help="the topic")
    command.add_argument(
        "place", metavar="PARTITION|FILE[:ROW]", help="its Kafka partition, or a file of a feed"
    )
    command.add_argument(
        "offset",
        type=natural,
        metavar="OFFSET",
        nargs="?",
        help="the offset to look up in the Kafka partition",
    )
    command.add_argument("--json", action="store_true", help="print one JSON object")


def _cat(commands: Any) -> None:
    command = _command(
        commands,
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


def _verify(commands: Any) -> None:
    command = _command(
        commands,
        "verify",
        "read everything back: is every record there exactly once?",
        """\
Read the landed objects back with the group's own format and compare them with the ledger:
every committed record must be there exactly once. Formats that store offsets (SequenceFile,
Parquet) are checked offset by offset; for the others, the rows of each object are counted.
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
    _add_group(command)
    command.add_argument(
        "--kafka",
        action="store_true",
        help="also read the landed ranges from Kafka and compare the payloads",
    )
    _add_topics(command)
    _add_report_options(command)
