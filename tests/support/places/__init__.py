"""Empty output roots on real servers of each kind of store, one module per kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from landfall.objects import Upload


@dataclass(frozen=True)
class Place:
    """An empty output root, and what somebody other than Landfall does there with its own client.

    Attributes:
        output: the fields of ``spec.output`` that name and access it, as in YAML.
        secrets: the files of each Secret that they refer to.
        keys: the visible keys, sorted, relative to the root.
        read: the bytes of an object.
        delete: deletes an object.
        lose: discards an upload that is not completed, as a lifecycle rule or an administrator may.
    """

    output: Mapping[str, Any]
    keys: Callable[[], list[str]]
    read: Callable[[str], bytes]
    delete: Callable[[str], None]
    lose: Callable[[Upload], None]
    secrets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
