"""Images as the Open Container Initiative lays them out in a folder: blobs by digest, and an index of names."""

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
"""Blobs up to this many bytes are always packed: manifests and configurations must be there to be
read.
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """Such a folder."""

    folder: Path

    def names(self) -> dict[str, str]:
        """Digest of each image's manifest, by name."""
        return {entry["annotations"][NAME]: entry["digest"] for entry in self._manifests()}

    def pack(self, name: str, called: str, to: IO[bytes], without: Collection[str] = ()) -> None:
        """Write an image as a tar that containerd imports.

        Args:
            name: of the image here.
            called: of the image there.
            to: where the tar goes.
            without: digests of blobs that are there already.
        """
        (entry,) = (entry for entry in self._manifests() if entry["annotations"][NAME] == name)
        index = {"schemaVersion": 2, "manifests": [{**entry, "annotations": {NAME: called}}]}
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
        """Forget all images called ``prefix-…`` but the newest so many, and every blob that no image has."""
        entries = self._manifests()
        ours = [entry for entry in entries if entry["annotations"][NAME].startswith(f"{prefix}-")]
        left = [entry for entry in entries if entry not in ours[:-keep]]
        write(self.folder / "index.json", json.dumps({"schemaVersion": 2, "manifests": left}))
        needed = {digest for entry in left for digest in self._blobs_of(entry["digest"])}
        for blob in (self.folder / "blobs" / "sha256").iterdir():
            if f"sha256:{blob.name}" not in needed:
                blob.unlink()

    def add(self, name: str, program: Path, command: Sequence[str]) -> None:
        """File an image that holds one program and nothing else; the same program makes the same image."""
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as content, program.open("rb") as binary:
            content.addfile(_entry(command[0].lstrip("/"), program.stat().st_size, 0o755), binary)
        layer_of = self._file(f"{TYPE}.layer.v1.tar", layer.getvalue())
        config = {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Entrypoint": list(command), "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [layer_of["digest"]]},
        }
        config_of = self._file(f"{TYPE}.config.v1+json", _json(config))
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{TYPE}.manifest.v1+json",
            "config": config_of,
            "layers": [layer_of],
        }
        entry = {
            **self._file(f"{TYPE}.manifest.v1+json", _json(manifest)),
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
        """Of an image: its manifest, configuration and layers."""
        manifest = json.loads(self._blob(digest).read_text())
        yield digest
        yield manifest["config"]["digest"]
        for layer in manifest["layers"]:
            yield layer["digest"]

    def _blob(self, digest: str) -> Path:
        return self.folder / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def _file(self, kind: str, content: bytes) -> dict[str, Any]:
        """Add a blob; what others call it by."""
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
