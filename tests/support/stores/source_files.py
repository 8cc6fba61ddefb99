"""Files that another program leaves on a real server, and the feed that reads them."""

from typing import Any

import pytest

from landfall.api.spec import Feed
from landfall.objects import FileChanged
from landfall.store import SourceFiles
from landfall.store.urls import open_files
from tests.support.places import Place


def feed_of(place: Place, **access: Any) -> dict[str, Any]:
    """The fields of a feed of all files of a place, as in YAML; ``access`` instead of its own."""
    return {"url": place.output["url"], **place.access, **access}


def files_of(place: Place, **access: Any) -> SourceFiles:
    """Its files."""
    return open_files(Feed.model_validate({"topic": "t", **feed_of(place, **access)}))


def check_versions(place: Place) -> None:
    """Files are listed in order, and a version is read as long as it is there."""
    source = files_of(place)
    for name in ("a/b", "a-b", "a.csv"):
        place.write(name, name.encode())
    dash, dot, slash = source.files()
    assert [file.name for file in (dash, dot, slash)] == ["a-b", "a.csv", "a/b"]
    assert [file.name for file in source.files(after="a.csv")] == ["a/b"]
    assert source.find("a/b") == slash
    assert source.read(slash, 1, 3) == b"/b"

    place.write("a/b", b"a+b")
    with pytest.raises(FileChanged):
        source.read(slash, 1, 3)
    place.delete("a/b")
    with pytest.raises(FileChanged):
        source.read(slash, 1, 3)
    assert source.find("a/b") is None
