"""The arguments of ``landfall contract``, which checks what producers want to change.

They import nothing heavy: help texts wait neither for NumPy nor for the models of a spec.
"""

from pathlib import Path

from landfall.cli.options import Nested, NewCommand, add_json
from landfall.cli.values import natural

_ABOUT_CHECK = """\
Find out in a producer's CI whether a group can land what comes with a new schema, before it comes.

First by the schema alone: is each field there that the group reads, and can its values become the
declared column? With output.columns: FromSchema, the columns of the new schema are compared with
the columns that landed last, and the rules of each publisher of tables show whether it adds or
widens columns, or would stop. No table is asked.

Then by rows: the last landed rows of each topic are written under the new schema, go through the
stages of landing in memory, and are compared with what landed. A field that earlier rows do not
have gets its default, else null or the empty value of its type. Nothing is landed.

Files and secrets that transforms name must be there, as for `landfall check`. Code that the group
names is imported. With --offline, no server is asked: neither rows nor landed columns are known
then, unless the group has the present schema in decode.options.

Exit code 6: something would fail. A column that changes its values, or is gone, is shown and is no
failure.

examples:
  landfall contract check new.avsc --against group.yaml
  landfall contract check new.avsc --against group.yaml --topic orders --rows 10000
  landfall contract check new.avsc --against group.yaml --offline
  landfall contract check new.avsc --against group.yaml --json | jq '.topics[].findings[]'
"""


def add_contract(new: NewCommand, nested: Nested) -> None:
    """Add the command.

    Args:
        new: adds a command.
        nested: what adds commands below one, given its subparsers.
    """
    command = new(
        "contract",
        "can a group land what a producer is about to send?",
        """\
Check a producer's change against a group that lands its topic.

examples:
  landfall contract check new.avsc --against group.yaml
""",
    )
    below = command.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _check(nested(below))


def _check(new: NewCommand) -> None:
    command = new("check", "can a group land payloads of a new schema?", _ABOUT_CHECK)
    command.add_argument(
        "schema", type=Path, metavar="SCHEMA.avsc", help="the new schema of payloads, of Avro"
    )
    command.add_argument(
        "--against",
        dest="group",
        type=Path,
        required=True,
        metavar="GROUP.yaml",
        help="the file that describes the consumer group",
    )
    command.add_argument(
        "--topic",
        metavar="TOPIC",
        help="the topic whose schema it is (default: each that the group decodes as Avro)",
    )
    command.add_argument(
        "--rows",
        type=natural,
        default=1000,
        metavar="N",
        help="try the last N landed rows of each topic (default: 1000; 0 tries none)",
    )
    command.add_argument("--offline", action="store_true", help="ask no server")
    add_json(command)
