"""What any client that may write to an Iceberg table may have written there: a position is refused,
and a manifest takes no more memory than a step of reading may."""

import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from landfall import memory_limit
from landfall.errors import DestinationAway, Reason, Stalled
from landfall.publish.iceberg.position import position
from tests.support.publishers.lake import CLICKS, Lake, iceberg_lake
from tests.unit.publish.delta.test_delta_rewritten import replace

KEY = "landfall.shop.0.through"


def snapshot(number: int, parent: int | None, **summary: str) -> Any:
    return SimpleNamespace(
        snapshot_id=number,
        parent_snapshot_id=parent,
        sequence_number=number,
        summary=SimpleNamespace(additional_properties=summary),
    )


def metadata(*snapshots: Any, **properties: str) -> Any:
    named = {f"{KEY}{name.replace('_', '.')}": value for name, value in properties.items()}
    return SimpleNamespace(snapshots=snapshots, current_snapshot_id=9, properties=named)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "snapshots",
    [(snapshot(9, 9),), (snapshot(9, 8), snapshot(8, 9)), (snapshot(9, 7), snapshot(7, 7))],
    ids=["itself", "two", "an older one"],
)
@pytest.mark.parametrize("properties", [{}, {"": "5"}])
def test_a_snapshot_that_is_its_own_ancestor(
    snapshots: tuple[Any, ...], properties: dict[str, str]
) -> None:
    with pytest.raises(Stalled, match=r"is its own ancestor: .*--rebuild") as raised:
        position(metadata(*snapshots, **properties), KEY)

    assert raised.value.reason is Reason.DESTINATION_CONFLICT


@pytest.mark.parametrize(
    "properties",
    [
        {"": "x"},
        {"": "-2"},
        {"": "9" * 4_000},
        {"": "9" * 5_000},
        {"": "\x1b]0;owned\x07"},
        {"": "5", "_snapshot": "x"},
        {"": "5", "_sequence": "\x1b[2J"},
        {"": "5", "_sequence": "9" * 5_000},
        {"": "5", "_left-out": "!"},
    ],
)
def test_properties_that_are_no_position(properties: dict[str, str]) -> None:
    with pytest.raises(Stalled, match=r"names no position of this publisher: .*--rebuild") as found:
        position(metadata(snapshot(9, 8), **properties), KEY)

    message = str(found.value)
    assert (message.isprintable(), len(message) < 500) == (True, True)


def manifests(lake: Lake) -> list[Path]:
    tables: Any = lake.connect()
    snapshot = tables._load("lake.clicks").current_snapshot()
    found = snapshot.manifests(tables.connection.file_io("file:///"))
    return [Path(each.manifest_path.removeprefix("file://")) for each in found]


def rewrite(file: Path, packed: bytes) -> None:
    """Replace the blocks of an Avro file by one of these bytes, packed by deflate."""
    whole = file.read_bytes()
    mark = whole[-16:]
    head = whole[: whole.index(mark) + 16]
    assert b"deflate" in head
    file.write_bytes(head + number(1) + number(len(packed)) + packed + mark)


def number(value: int) -> bytes:
    """A number as Avro writes it."""
    left, found = value << 1, b""
    while left > 127:
        found += bytes([left & 127 | 128])
        left >>= 7
    return found + bytes([left])


def bomb() -> bytes:
    """Half a gigabyte of zeros."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(1 << 9)) + packer.flush()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A table with two files, which are to be replaced by another one."""
    made = iceberg_lake(tmp_path)
    made.landed.land(CLICKS).land(CLICKS).settle()
    made.publish()
    replace(made, 0, 1)
    return made


def test_a_manifest_that_unpacks_to_more_than_memory(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    (manifest,) = manifests(lake)
    rewrite(manifest, bomb())
    assert manifest.stat().st_size < 1 << 20
    monkeypatch.setattr(memory_limit, "step_bytes", lambda: 64 << 20)
    monkeypatch.setattr(memory_limit, "_SPARE_BYTES", 64 << 20)

    with pytest.raises(Stalled, match=r"lake.clicks: .*more than 64 MiB of memory"):
        lake.publish()


@pytest.mark.parametrize("packed", [b"\xff" * 99, zlib.compress(b"")[2:-4]])
def test_a_manifest_of_garbage_is_not_called_deleted_rows(lake: Lake, packed: bytes) -> None:
    (manifest,) = manifests(lake)
    rewrite(manifest, packed)

    with pytest.raises(DestinationAway, match=r"Iceberg table lake\.clicks: ") as found:
        lake.publish()

    assert "deleted rows" not in str(found.value)
