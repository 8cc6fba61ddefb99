"""Files that decoders read: their checksums, and what is refused."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

import pytest

from landfall import registry
from landfall.api.spec import Decode
from landfall.errors import Stalled
from landfall.pipeline.decoders import Decoder, Wanted
from landfall.pipeline.decoders.thrift import ThriftDecoder
from landfall.pipeline.pinned import pinned_files
from tests.support.payloads.protobuf_payloads import descriptors

AVRO = b'{"type": "record", "name": "R", "fields": []}'
IDL = b"struct Outer { 1: i64 id }"
KINDS: Mapping[str, tuple[str, bytes, Callable[[str], dict[str, object]]]] = {
    "Thrift": ("a.thrift", IDL, lambda path: {"file": path, "struct": "Outer"}),
    "Protobuf": (
        "a.bin",
        descriptors(),
        lambda path: {"file": path, "message": "shop.Event"},
    ),
    "Avro": ("a.avsc", AVRO, lambda path: {"schemaFile": path}),
}


def built(kind: str, **options: object) -> Decoder:
    made = Decode.model_validate({"format": kind, "options": options})
    return registry.decoder(made, Wanted())


@pytest.mark.parametrize("kind", KINDS)
def test_a_decoder_says_which_file_it_has_read(kind: str, tmp_path: Path) -> None:
    name, content, options = KINDS[kind]
    path = tmp_path / name
    path.write_bytes(content)
    checksum = sha256(content).hexdigest()

    (file,) = pinned_files([built(kind, **options(str(path)))])

    assert (file.path, file.sha256) == (str(path), checksum)
    assert pinned_files([built(kind, **options(str(path)), sha256=checksum)]) == (file,)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_with_another_checksum_is_refused(kind: str, tmp_path: Path) -> None:
    name, content, options = KINDS[kind]
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(Stalled) as caught:
        built(kind, **options(str(path)), sha256="0" * 64)
    with pytest.raises(Stalled, match="64 hexadecimal digits in lower case"):
        built(kind, **options(str(path)), sha256="0")

    found = f"{path} has {sha256(content).hexdigest()}"
    assert str(caught.value) == f"spec.decode.options.sha256: {found}"


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("Thrift", {"idl": IDL.decode(), "struct": "Outer"}),
        ("Avro", {"schema": AVRO.decode()}),
    ],
)
def test_a_checksum_is_for_a_file(kind: str, options: Mapping[str, object]) -> None:
    assert pinned_files([built(kind, **options)]) == ()
    with pytest.raises(Stalled, match=r"options\.sha256: is for "):
        built(kind, **options, sha256="0" * 64)


def including(folder: Path, inner: str) -> ThriftDecoder:
    folder.mkdir(exist_ok=True)
    (folder / "shared.thrift").write_text(f"struct Inner {{ 1: i64 {inner} }}")
    outer = folder / "outer.thrift"
    outer.write_text('include "shared.thrift"\nstruct Outer { 1: shared.Inner inner }')
    wanted = Wanted((("inner", inner),), read_file=lambda path: Path(path).read_bytes())
    return ThriftDecoder.of({"file": str(outer), "struct": "Outer"}, wanted)


def test_the_checksum_covers_what_a_file_includes(tmp_path: Path) -> None:
    one, same, other = (including(tmp_path / "x", inner) for inner in ("a", "a", "b"))

    assert one.files == same.files
    assert one.files[0].path == other.files[0].path
    assert one.files[0].sha256 != other.files[0].sha256


def test_files_of_one_name_in_two_folders_are_two(tmp_path: Path) -> None:
    """Building fails if the second gets the first one's ``shared.thrift``."""
    made = [including(tmp_path / name, name) for name in ("x", "y", "x")]

    assert [list(each.fields) for each in made] == [[("inner", n)] for n in ("x", "y", "x")]
