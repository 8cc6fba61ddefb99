"""Container images in an OCI layout: a folder with blobs by digest and an index of names."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Collection, Iterator, Mapping, Sequence
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
        self,
        name: str,
        packed_name: str,
        to: IO[bytes],
        without: Collection[str] = (),
        labels: Mapping[str, str] | None = None,
    ) -> str:
        """Write an image as a tar that containerd imports; returns the digest of its manifest.

        Args:
            name: The name of the image in this layout.
            packed_name: The name of the image in the tar.
            to: The file to write the tar to.
            without: Digests of blobs that the receiver has already.
            labels: Labels that the image in the tar has in addition. They change its
                configuration, hence its digest, and no layer.
        """
        (entry,) = (entry for entry in self._manifests() if entry["annotations"][NAME] == name)
        described, small = self._labelled(entry, labels) if labels else (entry, {})
        index = {
            "schemaVersion": 2,
            "manifests": [{**described, "annotations": {NAME: packed_name}}],
        }
        texts = {"oci-layout": VERSION.encode(), "index.json": _json(index)}
        texts |= {f"blobs/{digest.replace(':', '/')}": text for digest, text in small.items()}
        replaced = {entry["digest"], self._manifest(entry)["config"]["digest"]} if labels else set()
        with tarfile.open(fileobj=to, mode="w|") as archive:
            for path, text in texts.items():
                archive.addfile(_entry(path, len(text)), io.BytesIO(text))
            for digest in dict.fromkeys(self._blobs_of(entry["digest"])):
                if digest in replaced:
                    continue
                blob = self._blob(digest)
                if digest not in without or blob.stat().st_size <= SMALL:
                    with blob.open("rb") as content:
                        archive.addfile(
                            _entry(f"blobs/sha256/{blob.name}", blob.stat().st_size), content
                        )
        return str(described["digest"])

    def layers(self, name: str) -> Iterator[tuple[str, Path]]:
        """The media type and the file of each layer of an image, the last layer first."""
        (entry,) = (entry for entry in self._manifests() if entry["annotations"][NAME] == name)
        for layer in reversed(self._manifest(entry)["layers"]):
            yield layer["mediaType"], self._blob(layer["digest"])

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

    def _labelled(
        self, entry: dict[str, Any], labels: Mapping[str, str]
    ) -> tuple[dict[str, Any], dict[str, bytes]]:
        """The entry of an image with more labels, and the two blobs that differ, by digest."""
        manifest = self._manifest(entry)
        config = json.loads(self._blob(manifest["config"]["digest"]).read_text())
        settings = config.setdefault("config", {})
        settings["Labels"] = {**(settings.get("Labels") or {}), **labels}
        described = _described(manifest["config"]["mediaType"], _json(config))
        changed = _json({**manifest, "config": described})
        packed = _described(entry["mediaType"], changed)
        return packed, {packed["digest"]: changed, described["digest"]: _json(config)}

    def _manifest(self, entry: dict[str, Any]) -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads(self._blob(entry["digest"]).read_text())
        return manifest

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
        described = _described(kind, content)
        blob = self._blob(described["digest"])
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        return described


def _described(kind: str, content: bytes) -> dict[str, Any]:
    """The descriptor of a blob."""
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return {"mediaType": kind, "digest": digest, "size": len(content)}


def _entry(path: str, size: int, mode: int = 0o644) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = size, mode
    return entry


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()
