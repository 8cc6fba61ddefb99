"""Images are filed by what they are made from, and sent without what is there already."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from dev.kube.archive import OciLayout
from dev.kube.images import CONTEXT, FOLDERS, ROOT, digest_of, files_of, pip_settings

IMAGE = "landfall.local/thing:1"


@pytest.fixture
def layout(tmp_path: Path) -> OciLayout:
    """With one image whose layer is big, and two others."""
    (tmp_path / "program").write_bytes(bytes(2**21))
    made = OciLayout(tmp_path / "layout")
    made.add("a-1", tmp_path / "program", ["/program"])
    for number in (2, 3, 4):
        (tmp_path / "program").write_bytes(bytes(2**21 + number))
        made.add(f"a-{number}", tmp_path / "program", ["/program"])
    made.add("b-1", tmp_path / "program", ["/program", "-v"])
    return made


def test_an_image_is_packed_with_its_name_and_all_its_blobs(layout: OciLayout) -> None:
    packed = _packed(layout, "a-1")

    assert packed.keys() - {"oci-layout"} == {"index.json", *_blobs(layout, "a-1")}
    assert f'"{IMAGE}"'.encode() in packed["index.json"]


def test_a_layer_that_is_there_is_not_sent_but_what_describes_it_is(layout: OciLayout) -> None:
    whole = _packed(layout, "a-1")
    everything = [f"sha256:{Path(path).name}" for path in whole]

    left_out = whole.keys() - _packed(layout, "a-1", *everything).keys()

    assert [len(whole[path]) > 2**21 for path in left_out] == [True]


def test_the_newest_few_images_stay_and_those_of_others(layout: OciLayout) -> None:
    needed = (
        _blobs(layout, "a-2")
        | _blobs(layout, "a-3")
        | _blobs(layout, "a-4")
        | _blobs(layout, "b-1")
    )

    layout.prune("a", keep=3)

    assert list(layout.names()) == ["a-2", "a-3", "a-4", "b-1"]
    assert {
        f"blobs/sha256/{path.name}" for path in (layout.folder / "blobs" / "sha256").iterdir()
    } == needed


def test_the_same_program_makes_the_same_image(layout: OciLayout, tmp_path: Path) -> None:
    before = layout.names()["a-4"]

    layout.add("a-4", tmp_path / "program", ["/program"])

    assert layout.names()["a-4"] == before


def test_a_digest_follows_content_and_nothing_else(tmp_path: Path) -> None:
    for name in CONTEXT:
        (tmp_path / name).write_text(name)
    module = tmp_path / "operator" / "module.py"
    module.parent.mkdir()
    module.write_text("a = 1")
    before = digest_of(tmp_path, "base")

    (module.parent / "__pycache__").mkdir()
    (module.parent / "__pycache__" / "module.cpython-311.pyc").write_bytes(b"compiled")
    same = digest_of(tmp_path, "base")
    module.write_text("a = 2")

    assert same == before
    assert len({before, digest_of(tmp_path, "base"), digest_of(tmp_path, "other")}) == 3


def test_a_build_reads_what_its_digest_knows() -> None:
    allowed = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = [
        line.split()[1:-1]
        for line in (ROOT / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY ")
    ]
    names = {
        name.split("/")[0]
        for arguments in copied
        for name in arguments
        if not (arguments[0].startswith("--from") or name.startswith("--chmod"))
    }

    assert names <= allowed == {*FOLDERS, *CONTEXT} - {"Dockerfile", ".dockerignore"}


def test_every_source_file_is_tracked_or_new() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *FOLDERS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert {str(file.relative_to(ROOT)) for file in files_of(ROOT)} - set(CONTEXT) == {
        line for line in listed.stdout.splitlines() if (ROOT / line).exists()
    }


def test_settings_about_the_index_reach_the_build_and_others_do_not() -> None:
    listed = [
        ":env:.cert='/etc/ssl/certs/ca-certificates.crt'",
        ":env:.default-timeout='180'",
        ":env:.find-links='/opt/wheels'",
        "global.index-url='https://index.example/simple'",
        "install.trusted-host='a\\nb'",
    ]

    assert pip_settings(listed) == [
        "timeout = 180",
        "index-url = https://index.example/simple",
        "trusted-host = a\n  b",
    ]


def _packed(layout: OciLayout, name: str, *without: str) -> dict[str, bytes]:
    tar = io.BytesIO()
    layout.pack(name, IMAGE, tar, without)
    tar.seek(0)
    with tarfile.open(fileobj=tar) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]


def _blobs(layout: OciLayout, name: str) -> set[str]:
    return {path for path in _packed(layout, name) if path.startswith("blobs/")}
