"""Members that become more than a driver's memory holds are damaged ones."""

import struct
import zlib
from collections.abc import Callable

import msgspec
import pytest

from landfall.discovery import stored
from landfall.errors import Stalled
from landfall.ledger import segments
from landfall.ledger.gzip_members import unpack
from landfall_audit import gzip_members as of_auditor
from landfall_audit.ledger import slots

LIMIT = 1 << 20
unpackers = pytest.mark.parametrize("unpacked", [unpack, of_auditor.unpacked])


def member(body: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(body) + packer.flush()


@unpackers
def test_a_member_within_the_limit_is_unpacked(unpacked: Callable[[bytes, int], bytes]) -> None:
    for size in (0, 1, LIMIT - 1, LIMIT):
        assert unpacked(member(bytes(size)), LIMIT) == bytes(size)


@unpackers
@pytest.mark.parametrize("limit", [0, 1, LIMIT])
def test_a_bomb_is_damaged(limit: int, unpacked: Callable[[bytes, int], bytes]) -> None:
    with pytest.raises(ValueError, match="longer than"):
        unpacked(member(bytes(limit + 1)), limit)


@unpackers
@pytest.mark.parametrize("packed", [b"", b"no gzip", member(b"x" * 99)[:-9]])
def test_what_is_damaged_is_so(unpacked: Callable[[bytes, int], bytes], packed: bytes) -> None:
    with pytest.raises(ValueError, match="damaged"):
        unpacked(packed, LIMIT)


def test_more_after_a_member_is_damage() -> None:
    with pytest.raises(ValueError, match="has more after it"):
        unpack(member(b"x") + b"y", LIMIT)


def test_bombs_in_a_bucket_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "MAX_MEMBER_BYTES", LIMIT)
    monkeypatch.setattr(stored, "_MAX_BYTES", LIMIT)
    bomb = member(bytes(LIMIT + 1))

    for read in (segments.read_directory, segments.read_entries, segments.read_block):
        with pytest.raises(ValueError, match="longer than 1 MiB"):
            read(bomb)
    with pytest.raises(Stalled, match=r"some/key: damaged: .* longer than 1 MiB"):
        stored.unpacked("some/key", bomb)


@pytest.mark.parametrize(("limit", "blocks"), [("MAX_MEMBER_BYTES", 1), ("MAX_SEGMENT_BYTES", 3)])
def test_the_auditor_reads_no_bomb_of_a_segment(
    limit: str, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, limit, LIMIT)
    body, places = b"", []
    for _ in range(blocks):
        one = member(bytes(LIMIT + 1) if blocks == 1 else bytes(LIMIT // 2))
        places.append((0, len(body), len(one)))
        body += one
    directory = member(msgspec.json.encode({"blocks": places}))
    segment = body + directory + b"LANDSEG1" + struct.pack(">Q", len(directory))

    with pytest.raises(ValueError, match=r"a damaged segment: damaged: .* longer than"):
        slots._lines(segment)
