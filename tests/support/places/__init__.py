"""Empty output roots on real servers of each kind of store, one module per kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from landfall.objects import Upload


@dataclass(frozen=True)
class Place:
    """An empty output root, and what somebody other than Landfall does there with its own client.

    Keys are relative to the root.

    Attributes:
        output: the fields of ``spec.output`` that name and access it, as in YAML.
        stamps: for each visible key, what changes when the object is written again.
        uploading: the keys of objects of which parts were uploaded that are not visible, sorted.
        read: the bytes of an object.
        write: writes an object, in place of one that is there, as another program does.
        delete: deletes an object.
        lose: discards an upload that is not completed, as a lifecycle rule or an administrator may.
    """

    output: Mapping[str, Any]
    stamps: Callable[[], dict[str, tuple[str, str]]]
    uploading: Callable[[], list[str]]
    read: Callable[[str], bytes]
    write: Callable[[str, bytes], None]
    delete: Callable[[str], None]
    lose: Callable[[Upload], None]

    @property
    def access(self) -> dict[str, Any]:
        """The fields that access it, as in YAML."""
        return {name: value for name, value in self.output.items() if name != "url"}

    def keys(self, prefix: str = "") -> list[str]:
        """The visible keys, sorted."""
        return sorted(key for key in self.stamps() if key.startswith(prefix))

    def open_uploads(self) -> list[str]:
        """The keys of objects of which parts were uploaded that are not visible, sorted."""
        return self.uploading()


def save_secrets(folder: Path, secrets: Mapping[str, Mapping[str, str]]) -> None:
    """Write Secrets, given the files of each, as folders, which is how drivers find them."""
    for name, files in secrets.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for key, value in files.items():
            (folder / name / key).write_text(value)
