"""The arguments of ``landfall init``, and the help text that explains them.

Like ``landfall.cli.parser``, this module imports nothing heavy.
"""

import argparse
from pathlib import Path

from landfall.cli.author import NewCommand
from landfall.cli.decide import add_json

_ABOUT = """\
Write a group file for a topic. The last records of the topic are read, without a consumer group,
and the decoder and the field that dates a record are guessed from them; nothing is landed. With
--records the lines of a file are looked at instead, with --offline nothing is. The file passes
`landfall check --offline`, and comments in it name what else most groups set.

examples:
  landfall init --topic app.web --bootstrap-servers kafka:9092 --url s3://logs/parsed
  landfall init --topic app.web --url file:///tmp/landed web.yaml      # Kafka is $LANDFALL_KAFKA
  landfall init --topic orders --url s3://lake/orders --schema-registry http://registry:8081
  landfall init --topic app.web --url s3://logs/parsed -D security.protocol=SSL -   # print it
"""


def key_and_value(text: str) -> tuple[str, str]:
    """A key and its value, from ``key=value``.

    Raises:
        ArgumentTypeError: there is no equals sign.
    """
    key, found, value = text.partition("=")
    if not (key and found):
        raise argparse.ArgumentTypeError(f"must be key=value, got {key!r}")
    return key, value


def add_init(new_command: NewCommand) -> None:
    """Add the command."""
    command = new_command("init", "write a group file for a topic", _ABOUT)
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
        "--format", default="", help="the format of objects (default: that of the decoder)"
    )
    looks = command.add_mutually_exclusive_group()
    looks.add_argument(
        "--records", type=Path, metavar="FILE", help="look at the lines of a file, not at the topic"
    )
    looks.add_argument("--offline", action="store_true", help="ask no server")
    command.add_argument("--force", action="store_true", help="replace a file that exists")
    add_json(command)
