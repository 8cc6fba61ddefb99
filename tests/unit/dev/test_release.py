"""A release is what its commit is, says what it lacks, and is checked without a program of ours."""

import gzip
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from dev.kube.archive import OciLayout
from dev.release import chart, image_archives, page, sums, versions, wheels
from dev.release.compare import differences
from dev.release.sources import CommitSources, export
from dev.servers.cache import MissingTool
from tests.support.landing.processes import ROOT

DIGESTS = {"operator": f"sha256:{'0a' * 32}", "spark": f"sha256:{'0b' * 32}"}
Key = ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    command = ["git", "-C", folder, *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """With one commit of a file."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "a.txt").write_text("committed")
    git(folder, "add", "a.txt")
    git(folder, "commit", "-qm", "a", "--date=2026-01-02T03:04:05Z")
    return folder


# -------------------------------------------------------------------------------- the sources


def test_sources_are_those_of_the_commit(repository: Path, tmp_path: Path) -> None:
    (repository / "notes.txt").write_text("not committed")

    sources = export(tmp_path / "to", repository)

    assert [path.name for path in sources.root.iterdir()] == ["a.txt"]
    assert sources.commit == git(repository, "rev-parse", "HEAD")
    epoch = git(repository, "log", "-1", "--format=%ct")
    assert sources.environment["SOURCE_DATE_EPOCH"] == epoch
    assert (sources.root / "a.txt").stat().st_mtime == int(epoch)


def test_a_change_that_is_not_committed_is_refused(repository: Path, tmp_path: Path) -> None:
    (repository / "a.txt").write_text("edited")

    with pytest.raises(MissingTool, match=r"not committed are:\n ?M a.txt"):
        export(tmp_path / "to", repository)


# ------------------------------------------------------------------------------- the versions


def test_one_version_is_repeated_wherever_there_is_one() -> None:
    assert versions.differing() == []


def test_a_version_is_written_everywhere(tmp_path: Path) -> None:
    for file in versions.PLACES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text((ROOT / file).read_text())

    changed = versions.write("99.98.97", tmp_path)

    assert changed == [*versions.PLACES]
    assert versions.differing(tmp_path) == []
    assert versions.version(tmp_path) == "99.98.97"
    for file in versions.PLACES:
        restored = (tmp_path / file).read_text().replace("99.98.97", versions.version())
        assert restored == (ROOT / file).read_text()


def test_another_version_is_found(tmp_path: Path) -> None:
    for file in versions.PLACES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text((ROOT / file).read_text())
    cargo = tmp_path / "native/Cargo.toml"
    cargo.write_text(
        re.sub(r'^version = ".+"', 'version = "9.9.9"', cargo.read_text(), flags=re.MULTILINE)
    )

    assert versions.differing(tmp_path) == ["native/Cargo.toml: 9.9.9"]


@pytest.mark.parametrize("text", ["0.2", "v0.2.0", "0.2.0.dev1", "0.2.0-rc1", ""])
def test_what_cargo_helm_and_pip_read_differently_is_no_version(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a version"):
        versions.write(text, tmp_path)


# ---------------------------------------------------------------------------------- the chart


def test_the_chart_asks_for_images_by_digest() -> None:
    values = (ROOT / chart.CHART / "values.yaml").read_text()

    changed = chart.with_digests(values, DIGESTS)

    expected = yaml.safe_load(values)
    for target, digest in DIGESTS.items():
        expected["image"][target]["digest"] = digest
    assert yaml.safe_load(changed) == expected
    assert changed.count("#") == values.count("#")
    assert " \n" not in changed


def test_values_without_a_place_for_a_digest_are_refused() -> None:
    with pytest.raises(ValueError, match=r"image\.other\.digest is 0 times"):
        chart.with_digests('image:\n  operator:\n    digest: ""\n', {"other": "sha256:00"})


def test_a_packed_chart_has_the_time_of_the_commit() -> None:
    packed = [chart.dated(archive(mtime), 1_000_000) for mtime in (1, 2)]

    assert packed[0] == packed[1]
    with tarfile.open(fileobj=io.BytesIO(packed[0])) as tar:
        entries = [(member.name, member.mode, member.mtime) for member in tar]
        assert entries == [("landfall/b", 0o644, 1_000_000), ("landfall/a", 0o644, 1_000_000)]
        assert tar.extractfile("landfall/a").read() == b"a"  # type: ignore[union-attr]


def archive(mtime: int) -> bytes:
    """A ``.tar.gz`` as Helm packs it, at some time."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name in ("b", "a"):
            entry = tarfile.TarInfo(f"landfall/{name}")
            entry.size, entry.mtime = 1, mtime
            tar.addfile(entry, io.BytesIO(name.encode()))
    return gzip.compress(made.getvalue(), mtime=mtime)


# --------------------------------------------------------------------------------- the images


@pytest.fixture
def layout(tmp_path: Path) -> OciLayout:
    (tmp_path / "program").write_bytes(b"binary")
    made = OciLayout(tmp_path / "layout")
    made.add("spark-1", tmp_path / "program", ["/opt/program"])
    return made


def unpacked(layout: OciLayout, labels: dict[str, str]) -> tuple[str, dict[str, bytes]]:
    made = io.BytesIO()
    digest = layout.pack("spark-1", "landfall-spark:1", made, labels=labels)
    made.seek(0)
    with tarfile.open(fileobj=made) as tar:
        return digest, {entry.name: tar.extractfile(entry).read() for entry in tar}  # type: ignore[union-attr]


def test_labels_are_in_the_configuration_and_all_digests_fit(layout: OciLayout) -> None:
    digest, files = unpacked(layout, {"org.opencontainers.image.version": "1"})

    blobs = {name: blob for name, blob in files.items() if name.startswith("blobs/")}
    for name, blob in blobs.items():
        assert name == f"blobs/sha256/{sha256(blob).hexdigest()}"
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["digest"] == digest
    manifest = json.loads(blobs[f"blobs/{digest.replace(':', '/')}"])
    config, (layer,) = manifest["config"], manifest["layers"]
    named = {f"blobs/{each['digest'].replace(':', '/')}" for each in (entry, config, layer)}
    assert blobs.keys() == named
    settings = json.loads(blobs[f"blobs/{config['digest'].replace(':', '/')}"])["config"]
    assert settings["Labels"] == {"org.opencontainers.image.version": "1"}
    assert settings["Entrypoint"] == ["/opt/program"]
    assert [each["size"] for each in (entry, config, layer)] == [
        len(blobs[f"blobs/{each['digest'].replace(':', '/')}"]) for each in (entry, config, layer)
    ]


def test_the_layout_itself_stays_as_it_is(layout: OciLayout) -> None:
    before = {path: path.read_bytes() for path in layout.folder.rglob("*") if path.is_file()}

    unpacked(layout, {"a": "b"})

    after = {path: path.read_bytes() for path in layout.folder.rglob("*") if path.is_file()}
    assert after == before


def test_a_file_of_an_image_is_read_from_its_layers(layout: OciLayout) -> None:
    assert image_archives.file_of(layout, "spark-1", "opt/program") == b"binary"
    with pytest.raises(FileNotFoundError, match="spark-1 has no opt/other"):
        image_archives.file_of(layout, "spark-1", "opt/other")


# ------------------------------------------------------------------------ sums and signatures


@pytest.fixture
def release(tmp_path: Path) -> Path:
    folder = tmp_path / "release"
    folder.mkdir()
    (folder / "a.whl").write_bytes(b"a")
    return folder


def pem(key: Key, protection: KeySerializationEncryption) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)


def blocks_of(section: str) -> list[str]:
    """The console blocks of a section of the page on releases, as one script each."""
    text = (ROOT / "docs/guides/releases.md").read_text()
    (body,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^```(?:console|python)\n(.*?)^```", body, re.MULTILINE | re.DOTALL)


def commands(block: str) -> str:
    return "\n".join(re.findall(r"^\$ (.*)", block, re.MULTILINE))


def checked(folder: Path) -> list[int]:
    """Exit codes of what the page prints for a check: by OpenSSL, by Python, of the sums."""
    openssl, python, files = blocks_of("Check a release")
    arguments = [
        ["sh", "-ec", commands(openssl)],
        [sys.executable, "-c", python],
        ["sh", "-ec", commands(files)],
    ]
    return [
        subprocess.run(each, cwd=folder, capture_output=True, check=False).returncode
        for each in arguments
    ]


def test_the_page_checks_what_was_signed(release: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    (release / sums.PUBLIC_KEY).write_bytes(sums.public_pem(key))

    sums.sign(sums.write(release), key)

    assert checked(release) == [0, 0, 0]


def test_a_changed_file_and_another_signature_are_found(release: Path) -> None:
    key, other = (ed25519.Ed25519PrivateKey.generate() for _ in range(2))
    (release / sums.PUBLIC_KEY).write_bytes(sums.public_pem(key))
    sums.sign(sums.write(release), key)

    (release / "a.whl").write_bytes(b"b")
    assert checked(release) == [0, 0, 1]
    sums.write(release)
    assert checked(release) == [1, 1, 0]
    sums.sign(release / sums.SUMS, other)
    assert checked(release) == [1, 1, 0]


def test_the_page_makes_a_key_that_signs(release: Path, tmp_path: Path) -> None:
    (block,) = blocks_of("Sign a release")
    (command,) = re.findall(r"^\$ (openssl genpkey .*)", block, re.MULTILINE)
    subprocess.run(["sh", "-ec", command], cwd=tmp_path, check=True, capture_output=True)

    key = sums.key(tmp_path / "release.pem")

    (release / sums.PUBLIC_KEY).write_bytes(sums.public_pem(key))
    sums.sign(sums.write(release), key)
    assert checked(release) == [0, 0, 0]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            pem(ed25519.Ed25519PrivateKey.generate(), BestAvailableEncryption(b"secret")),
            "a key with a passphrase",
        ),
        (pem(rsa.generate_private_key(65537, 2048), NoEncryption()), "not a key of Ed25519"),
        (b"text", "PEM"),
    ],
    ids=["passphrase", "rsa", "text"],
)
def test_another_key_does_not_sign(content: bytes, problem: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(content)

    with pytest.raises(ValueError, match=problem):
        sums.key(tmp_path / "key")


# ----------------------------------------------------------------------------------- the page

FACTS = page.Facts("1.2.3", "0a" * 20, "rustc 1.95.0", DIGESTS, signed=True, left_out={})


def test_the_page_of_a_release_names_each_file_and_digest() -> None:
    text = page.text(FACTS, ["landfall-1.2.3.tgz", "landfall_kafka-1.2.3-py3-none-any.whl"])

    assert "| `landfall-1.2.3.tgz` | the chart |" in text
    assert f"landfall-operator@{DIGESTS['operator']}" in text
    assert "openssl pkeyutl -verify" in text


def test_a_release_without_signature_or_part_reports_it() -> None:
    facts = page.Facts("1.2.3", "0a" * 20, "", {}, signed=False, left_out={"images": "not here"})

    text = page.text(facts, [])

    assert "**This release is not signed.**" in text
    assert "openssl" not in text
    assert "- images: not here" in text


def test_a_file_of_unknown_purpose_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no purpose is known of core\.1"):
        page.text(FACTS, ["core.1"])


# ---------------------------------------------------------------------------- the same bytes


def test_files_that_differ_or_are_missing_are_named(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, files in ((one, {"a": "1", "b": "1", "c": "1"}), (other, {"a": "1", "b": "2"})):
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)

    assert [line.split(":")[0] for line in differences(one, other)] == ["b", "c"]
    assert differences(one, one) == []


@pytest.mark.slow
def test_wheels_are_the_same_whatever_the_folder_the_umask_and_the_time_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = git(ROOT, "rev-parse", "HEAD")
    folders = [tmp_path / "a", tmp_path / "another/longer"]

    for folder, umask, zone in zip(folders, (0o022, 0o077), ("UTC", "Asia/Tokyo"), strict=True):
        monkeypatch.setenv("TZ", zone)
        before = os.umask(umask)
        try:
            sources = exported(folder / "sources", commit)
            wheels.build_python(sources, folder / "made", ["landfall-kafka", "landfall-audit"])
        finally:
            os.umask(before)

    made = [folder / "made" for folder in folders]
    assert len([*made[0].iterdir()]) == 2
    assert differences(*made) == []


def exported(folder: Path, commit: str) -> CommitSources:
    """The sources of a commit, from a clone of it: the working copy here may have changes."""
    git(ROOT, "clone", "-q", "--shared", "--no-checkout", str(ROOT), str(folder / "clone"))
    git(folder / "clone", "checkout", "-q", commit)
    return export(folder / "exported", folder / "clone")
