"""Names that several sections of the spec use."""

from collections import Counter
from typing import Annotated

from pydantic import AfterValidator

from landfall.api.pod_spec import Model
from landfall.api.values import DnsName, Name, matching

LEDGER_FOLDER = "_landfall"
"""The folder of the ledger in an output root, next to the topics' folders."""


def _has_folder(name: str) -> str:
    if name in {".", ".."}:
        raise ValueError(f"no topic can be called {name!r}")
    if name == LEDGER_FOLDER:
        raise ValueError(f"the folder of a topic {name!r} would be the ledger's, so none is landed")
    return name


TopicName = Annotated[
    str,
    matching(r"[a-zA-Z0-9._-]{1,249}", "a topic name (letters, digits, . _ - only)"),
    AfterValidator(_has_folder),
]


_ADDRESS = r"([A-Za-z_]+://)?(\[[0-9A-Fa-f:.]+\]|[^\s,:/\[\]]+):[0-9]{1,5}"
BootstrapServers = Annotated[
    Name,
    matching(
        rf"{_ADDRESS}(,\s*{_ADDRESS})*",
        "HOST:PORT, or several separated by commas, such as kafka-0:9092,kafka-1:9092",
    ),
]


class SecretRef(Model):
    """Reference to a Kubernetes Secret. Outside Kubernetes, a folder with one file per key."""

    name: DnsName
    """Name of the Secret, in the namespace of the group."""


def distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names as they are.

    Raises:
        ValueError: a name is listed more than once.
    """
    repeated = sorted(name for name, number in Counter(names).items() if number > 1)
    if repeated:
        raise ValueError(f"named twice: {', '.join(repeated)}")
    return names
