"""The images of a release as OCI archives, for the architecture of this machine.

``dev.kube.images`` builds them, as it does for clusters here, and files them by what they are made
from. The labels of a release, which name its commit, are added to what is filed: the layers of two
commits with the same sources are the same.
"""

import platform
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import zstandard

from dev.kube import images
from dev.kube.archive import ARCHITECTURES, OciLayout
from dev.release.sources import CommitSources

BILL = "opt/landfall/sbom.cdx.json"
LICENSES = "opt/landfall/THIRD-PARTY.md"
LABEL = "org.opencontainers.image"
ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"


@dataclass(frozen=True, slots=True)
class Archive:
    """An image in a file.

    Attributes:
        target: ``operator`` or ``spark``.
        file: of the archive.
        digest: of its manifest, ``sha256:…``, by which a registry names it once it is pushed.
    """

    target: str
    file: Path
    digest: str


def architecture() -> str:
    """This machine's, as images name it: ``amd64``."""
    return ARCHITECTURES.get(platform.machine(), platform.machine())


def build(sources: CommitSources, folder: Path) -> list[Archive]:
    """Write both images to a folder, and next to each what it contains of other projects.

    Raises:
        MissingTool: a program is missing, or a build failed.
    """
    made = []

    def write(layout: OciLayout, stored: str, _: str) -> None:
        target = stored.partition("-")[0]
        stem = f"landfall-{target}-{sources.version}"
        file = folder / f"{stem}-{architecture()}.oci.tar"
        name = f"landfall-{target}:{sources.version}"
        with file.open("wb") as to:
            digest = layout.pack(stored, name, to, labels=labels(sources))
        for path, suffix in ((BILL, "sbom.cdx.json"), (LICENSES, "THIRD-PARTY.md")):
            (folder / f"{stem}.{suffix}").write_bytes(file_of(layout, stored, path))
        made.append(Archive(target, file, digest))

    images.ensure(use=write, sources=images.Sources(sources.root, sources.version))
    return made


def labels(sources: CommitSources) -> Mapping[str, str]:
    """The labels of a release; the Dockerfile has those that are the same in every release."""
    return {
        f"{LABEL}.version": sources.version,
        f"{LABEL}.revision": sources.commit,
        f"{LABEL}.created": sources.committed.isoformat(),
    }


def file_of(layout: OciLayout, image: str, path: str) -> bytes:
    """The content of a file of an image.

    Raises:
        FileNotFoundError: the image has no such file.
    """
    for kind, layer in layout.layers(image):
        for member, archive in _members(kind, layer):
            if member.name.removeprefix("./") == path:
                content = archive.extractfile(member)
                return content.read() if content else b""
    raise FileNotFoundError(f"{image} has no {path}")


def _members(kind: str, layer: Path) -> Iterator[tuple[tarfile.TarInfo, tarfile.TarFile]]:
    with layer.open("rb") as raw:
        unpacked = zstandard.ZstdDecompressor().stream_reader(raw) if kind == ZSTD else raw
        with tarfile.open(fileobj=unpacked, mode="r|*" if unpacked is raw else "r|") as archive:
            for member in archive:
                yield member, archive
