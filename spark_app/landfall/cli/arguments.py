"""What can be typed, and the help that explains it."""

import argparse
from pathlib import Path
from typing import Any

from landfall import __version__

ABOUT = """\
Land Kafka topics in S3 exactly once.

GROUP.yaml describes a consumer group: which topics, how to read and route them, where to. It is the same document a
Kubernetes cluster gets. ${NAME} and ${NAME:-default} in it stand for environment variables, $${ for a plain ${.
"""

EXIT_CODES = """\
exit codes:
  0  done, caught up, or drained
  1  an error nobody foresaw: please report it
  2  the command line or the group file is wrong; the message names the field
  3  fenced: another driver took over, this one wrote nothing more
  4  stalled: a person is needed, the message says for what
  5  the store, Kafka or Spark is not there; trying again may help
  6  a check found a fault
"""


def parser() -> argparse.ArgumentParser:
    """Everything ``landfall`` understands; ``command`` is what was asked for."""
    root = argparse.ArgumentParser(
        prog="landfall",
        description=ABOUT,
        epilog=f"landfall COMMAND --help tells more about each.\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action="version", version=f"landfall {__version__}")
    commands = root.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (_run, _status, _audit, _verify, _fsck, _locate, _cat):
        add(commands)
    return root


def _command(commands: Any, name: str, summary: str, about: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=about,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.set_defaults(command=name)
    return made


def _group(command: argparse.ArgumentParser) -> None:
    command.add_argument("group", type=Path, metavar="GROUP.yaml", help="the consumer group")


def _run(commands: Any) -> None:
    command = _command(
        commands,
        "run",
        "land the group's topics, here, on local Spark",
        """\
Land the group's topics until stopped. SIGTERM or Ctrl-C drains: rounds under way are finished, then the group is handed
over; a second one ends at once. Ending it in any way, at any moment, loses nothing and lands nothing twice.

examples:
  landfall run group.yaml
  landfall run group.yaml --until-caught-up           # all that is there now, then stop
  landfall run group.yaml --master 'local[4]' --http-port 8080 &
  curl localhost:8080/status
""",
    )
    _group(command)
    command.add_argument(
        "--until-caught-up",
        action="store_true",
        help="stop when everything the topics held at the start is landed",
    )
    command.add_argument(
        "--master",
        default="local[*]",
        help="Spark's master; local[N] uses N cores of this machine (default: %(default)s)",
    )
    command.add_argument(
        "--http-port",
        type=int,
        metavar="N",
        help="serve status and metrics here; 0 takes any free port (default: the group's)",
    )
    command.add_argument(
        "--verbose", action="store_true", help="show every event, not only what needs attention"
    )


def _status(commands: Any) -> None:
    command = _command(
        commands,
        "status",
        "how far the group is, from its ledger and Kafka",
        """\
Show how far the group is. Reads the ledger and asks Kafka, so it works whether or not a driver is running.

examples:
  landfall status group.yaml
  landfall status group.yaml --partitions
  landfall status group.yaml --json | jq .lag_records
""",
    )
    _group(command)
    command.add_argument(
        "--partitions", action="store_true", help="a line per topic partition, not per topic"
    )
    command.add_argument(
        "--json", action="store_true", help="one JSON object, with every topic partition"
    )


def _fsck(commands: Any) -> None:
    command = _command(
        commands,
        "fsck",
        "check every invariant of ledger and objects",
        """\
Follow the ledger from its first slot and compare what it names with what is there. A line per invariant says what was
checked, and where it is first broken. Changes nothing; safe while a driver is running.

examples:
  landfall fsck group.yaml
  landfall fsck group.yaml --deep                     # downloads everything and compares checksums
""",
    )
    _group(command)
    command.add_argument(
        "--deep", action="store_true", help="read every object and compare its checksum"
    )


def _locate(commands: Any) -> None:
    command = _command(
        commands,
        "locate",
        "where a record is: from offset to object and row",
        """\
Say what became of one offset: in which object and row it is (rows count from 1), or that it was dead-lettered, left out,
invisible, skipped, is not landed yet, or lies before the start.

examples:
  landfall locate group.yaml clicks 3 41877
  landfall locate group.yaml clicks 3 41877 --json
""",
    )
    _group(command)
    command.add_argument("topic", metavar="TOPIC")
    command.add_argument("partition", type=int, metavar="PARTITION", help="Kafka partition")
    command.add_argument("offset", type=int, metavar="OFFSET")
    command.add_argument("--json", action="store_true", help="one JSON object")


def _cat(commands: Any) -> None:
    command = _command(
        commands,
        "cat",
        "print a landed object, whatever its format",
        """\
Print an object, a row each: the offset where the format stores it, then the payload. Dead letters are printed as JSON.

examples:
  landfall cat group.yaml clicks/dt=2026-11-21/1_3_00000000000000041000.seq
  landfall cat group.yaml s3://logs/backup/clicks/dt=2026-11-21/1_3_00000000000000041000.seq --limit 5
  landfall cat s3://logs/parsed/clicks/dt=2026-11-21/1_3_00000000000000041000.json.gz --format Json
""",
    )
    command.add_argument(
        "target",
        nargs="+",
        metavar="[GROUP.yaml] OBJECT",
        help="the group and an object of it, or the URL of any object",
    )
    command.add_argument(
        "--format",
        help="without a group: Text, Json, SequenceFile, Parquet, or package.module:Name",
    )
    command.add_argument(
        "--codec", help="without a group: the compression, if it is not the format's usual one"
    )
    command.add_argument(
        "--json", action="store_true", help="each row as JSON with offset, timestamp, key and value"
    )
    command.add_argument("--limit", type=int, metavar="N", help="stop after N rows")


def _verify(commands: Any) -> None:
    command = _command(
        commands,
        "verify",
        "read everything back: every record there, exactly once",
        """\
Read the landed objects back and hold them against the ledger: every committed record must be there once. Formats that store
offsets (SequenceFile, Parquet) are checked offset by offset, the others row by row and object by object. With --kafka every
payload is also compared with the one Kafka holds, as far as it still does.

examples:
  landfall verify group.yaml
  landfall verify group.yaml --kafka
  landfall verify group.yaml clicks orders --partitions
""",
    )
    _group(command)
    command.add_argument(
        "--kafka",
        action="store_true",
        help="read the same ranges from Kafka and compare the payloads",
    )
    command.add_argument("topics", nargs="*", metavar="TOPIC", help="only these topics")
    command.add_argument(
        "--partitions", action="store_true", help="a line per topic partition, not per topic"
    )
    command.add_argument(
        "--json", action="store_true", help="one JSON object, with every topic partition"
    )


def _audit(commands: Any) -> None:
    command = _command(
        commands,
        "audit",
        "hold everything landed against Kafka, independently",
        """\
Read Kafka and the landed objects with libraries that the writer does not use, and say of each topic partition: records
expected and found, missing, duplicate, in a wrong output partition (misplaced), with another payload (corrupted), out of
order, of no record (foreign); and lost, moved, damaged and extra objects. Works through one committed range at a time, so
size costs time and not memory. What cannot be compared (expired in Kafka, changed by a transform) counts as unchecked.
Changes nothing; safe while a driver is running.

fsck asks whether ledger and objects keep their own rules, verify whether the landed objects can be read back whole, audit
whether both tell the truth about Kafka.

examples:
  landfall audit group.yaml
  landfall audit group.yaml clicks orders --partitions
  landfall audit group.yaml --generation 3            # landed under another format or route before? only what 3 landed
  landfall audit group.yaml --json | jq .whole
""",
    )
    _group(command)
    command.add_argument("topics", nargs="*", metavar="TOPIC", help="only these topics")
    command.add_argument(
        "--generation", type=int, metavar="N", help="only what this generation landed"
    )
    command.add_argument(
        "--partitions", action="store_true", help="a line per topic partition, not per topic"
    )
    command.add_argument(
        "--json", action="store_true", help="one JSON object, with every topic partition"
    )
