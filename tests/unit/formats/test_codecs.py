import gzip
import io
import zlib

import pytest
import zstandard

from landfall.api.spec import Codec
from landfall.formats import codecs

BLOCKS = (b"one\n" * 1000, b"", b"two\n" * 70_000, bytes(range(256)) * 50)


def written(codec: Codec, *blocks: bytes) -> bytes:
    compressor = codecs.STREAMS[codec].compressor()
    return b"".join((*(compressor.compress(block) for block in blocks), compressor.finish()))


def read(codec: Codec, data: bytes) -> bytes:
    return b"".join(codecs.decompress(codec, io.BytesIO(data)))


@pytest.mark.parametrize("codec", codecs.STREAMS)
@pytest.mark.parametrize("blocks", [BLOCKS, (), (b"",)])
def test_blocks_are_read_back_as_one_stream(codec: Codec, blocks: tuple[bytes, ...]) -> None:
    assert read(codec, written(codec, *blocks)) == b"".join(blocks)


def test_zlib_reads_gzip_as_one_member() -> None:
    member = zlib.decompressobj(31)

    contents = member.decompress(written(Codec.GZIP, *BLOCKS))

    assert (contents, member.eof, member.unused_data) == (b"".join(BLOCKS), True, b"")


def test_the_gzip_header_has_no_name_and_no_time() -> None:
    assert written(Codec.GZIP) == bytes.fromhex("1f8b08000000000000ff03000000000000000000")


def test_gzip_of_several_members_is_read() -> None:
    assert read(Codec.GZIP, gzip.compress(b"a") + gzip.compress(b"") + gzip.compress(b"b")) == b"ab"


def test_zstd_frames_have_their_size_and_checksum() -> None:
    frame = zstandard.get_frame_parameters(written(Codec.ZSTD, b"x" * 1000))

    assert (frame.content_size, frame.has_checksum) == (1000, True)


def test_other_readers_read_zstd_across_frames() -> None:
    stream = zstandard.ZstdDecompressor().stream_reader(
        written(Codec.ZSTD, *BLOCKS), read_across_frames=True
    )

    assert stream.read() == b"".join(BLOCKS)


def test_an_empty_zstd_object_is_one_frame() -> None:
    assert zstandard.ZstdDecompressor().decompress(written(Codec.ZSTD)) == b""


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_data_that_ends_early_is_refused(codec: Codec) -> None:
    data = written(codec, *BLOCKS)

    for end in (1, len(data) // 2, len(data) - 1):
        with pytest.raises(ValueError, match=f"{codec} data ends early, at byte {end}"):
            read(codec, data[:end])


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_data_that_does_not_match_its_checksum_is_refused(codec: Codec) -> None:
    data = bytearray(written(codec, BLOCKS[0]))
    data[-5 if codec is Codec.GZIP else -1] ^= 1

    with pytest.raises(ValueError, match=f"damaged {codec} data before byte {len(data)}"):
        read(codec, bytes(data))


def test_what_an_object_grows_to_is_read_some_at_a_time() -> None:
    small = written(Codec.ZSTD, bytes(2**28))

    assert len(small) < 2**14
    assert max(map(len, codecs.decompress(Codec.ZSTD, io.BytesIO(small)))) <= 2**25
