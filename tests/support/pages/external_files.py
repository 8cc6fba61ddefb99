"""The example ``examples/external-files``: its group with other addresses, and its files."""

import gzip
from pathlib import Path
from typing import Any

import yaml

from tests.support.files.feed_scene import FeedScene, rows
from tests.support.pages.markdown import ROOT

EXAMPLE = ROOT / "examples/external-files"


def feed_of_the_example() -> dict[str, Any]:
    """The fields of the feed that differ from those of other scenes."""
    group = yaml.safe_load((EXAMPLE / "hits.yaml").read_text())
    (feed,) = group["spec"]["source"]["files"]
    return {key: value for key, value in feed.items() if key not in {"topic", "url"}}


def argo_documents() -> dict[str, Any]:
    """The manifests for Argo, by kind."""
    documents = yaml.safe_load_all((EXAMPLE / "argo_files.yml").read_text())
    return {document["kind"]: document for document in documents}


def put(files: FeedScene, count: int) -> list[str]:
    """Write files of one row, two rows and so on, and one that cannot be read; their names."""
    names = [f"{n:02}.gz" for n in range(count)]
    for n, name in enumerate(names):
        files.put(name, gzip.compress(rows(range(n + 1))))
    files.put("damaged.gz", b"not gzip")
    files.put("left-out.tmp", b"")
    return [*names, "damaged.gz"]


def reasons(files: FeedScene) -> dict[int, tuple[int, str]]:
    """How often each failed file was tried, and why it failed, by its number."""
    return {n: (part.attempt, part.reason) for n, part in files.feed.parked.items()}


def copy(folder: Path, *names: str) -> None:
    """Copy files of the example."""
    for name in names:
        (folder / name).write_text((EXAMPLE / name).read_text())
