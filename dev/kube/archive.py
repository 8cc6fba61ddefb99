"""Container images in an OCI layout: a folder with blobs by digest and an index of names."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dev.servers.ports import write

NAME = "org.opencontainers.image.ref.name"
TYPE = "application/vnd.oci.image"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
VERSION = json.dumps({"imageLayoutVersion": "1.0.0"})
SMALL = 2**20
"""Blobs up to this many bytes are always packed, because containerd reads manifests and configs."""


@dataclass(frozen=True, slots=True)
class OciLayout:
    """One OCI layout."""

    folder: Path

    def names(self) -> dict[str, str]:
        """The digest of each image's manifest, by the name of the image."""
        return {entry["annotations"][NAME]: entry["digest"] for entry in self._manifests()}

    def pack(
        self, name: str, packed_name: str, to: IO[bytes], without: Collection[str] = ()
    ) -> None:
        """Write an image as a tar that containerd imports.

        Args:
            name: The name of the image in this layout.
            packed_name: The name of the image in the tar.
            to: The file to write the tar to.
            without: Digests of blobs that the receiver has already.
        """
        (entry,) = (entry for entry in self._manifests() if entry["annotations"][NAME] == name)
        index = {"schemaVersion": 2, "manifests": [{**entry, "annotations": {NAME: packed_name}}]}
        with tarfile.open(fileobj=to, mode="w|") as archive:
            for path, text in {"oci-layout": VERSION, "index.json": json.dumps(index)}.items():
                archive.addfile(_entry(path, len(text.encode())), io.BytesIO(text.encode()))
            for digest in self._blobs_of(entry["digest"]):
                blob = self._blob(digest)
                if digest not in without or blob.stat().st_size <= SMALL:
                    with blob.open("rb") as content:
                        archive.addfile(
                            _entry(f"blobs/sha256/{blob.name}", blob.stat().st_size), content
                        )

    def prune(self, prefix: str, keep: int) -> None:
        """Keep the ``keep`` newest images named ``prefix-…``, and the blobs that images use."""
        entries = self._manifests()
        matching = [
            entry for entry in entries if entry["annotations"][NAME].startswith(f"{prefix}-")
        ]
        left = [entry for entry in entries if entry not in matching[:-keep]]
        write(self.folder / "index.json", json.dumps({"schemaVersion": 2, "manifests": left}))
        needed = {digest for entry in left for digest in self._blobs_of(entry["digest"])}
        for blob in (self.folder / "blobs" / "sha256").iterdir():
            if f"sha256:{blob.name}" not in needed:
                blob.unlink()

    def add(self, name: str, program: Path, command: Sequence[str]) -> None:
        """Add an image that contains only one program; the same program gives the same digest."""
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as content, program.open("rb") as binary:
            content.addfile(_entry(command[0].lstrip("/"), program.stat().st_size, 0o755), binary)
        layer_blob = self._add_blob(f"{TYPE}.layer.v1.tar", layer.getvalue())
        config = {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Entrypoint": list(command), "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [layer_blob["digest"]]},
        }
        config_blob = self._add_blob(f"{TYPE}.config.v1+json", _json(config))
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{TYPE}.manifest.v1+json",
            "config": config_blob,
            "layers": [layer_blob],
        }
        entry = {
            **self._add_blob(f"{TYPE}.manifest.v1+json", _json(manifest)),
            "annotations": {NAME: name},
        }
        others = [other for other in self._manifests() if other["annotations"][NAME] != name]
        write(
            self.folder / "index.json",
            json.dumps({"schemaVersion": 2, "manifests": [*others, entry]}),
        )
        write(self.folder / "oci-layout", VERSION)

    def _manifests(self) -> list[dict[str, Any]]:
        index = self.folder / "index.json"
        entries: list[dict[str, Any]] = (
            json.loads(index.read_text())["manifests"] if index.exists() else []
        )
        return entries

    def _blobs_of(self, digest: str) -> Iterator[str]:
        """The digests of an image's manifest, config and layers."""
        manifest = json.loads(self._blob(digest).read_text())
        yield digest
        yield manifest["config"]["digest"]
        for layer in manifest["layers"]:
            yield layer["digest"]

    def _blob(self, digest: str) -> Path:
        return self.folder / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def _add_blob(self, kind: str, content: bytes) -> dict[str, Any]:
        """Add a blob; returns its descriptor."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self._blob(digest).parent.mkdir(parents=True, exist_ok=True)
        self._blob(digest).write_bytes(content)
        return {"mediaType": kind, "digest": digest, "size": len(content)}


def _entry(path: str, size: int, mode: int = 0o644) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = size, mode
    return entry


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()
