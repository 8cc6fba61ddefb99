"""Images in a file, as the Open Container Initiative lays them out: one tar with blobs by digest and an index."""

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAME = "org.opencontainers.image.ref.name"
TYPE = "application/vnd.oci.image"


def image_of(file: Path) -> tuple[str, str]:
    """Name and digest of the image in an archive."""
    with tarfile.open(file) as archive:
        index = archive.extractfile("index.json")
        assert index
        (manifest,) = json.load(index)["manifests"]
    return manifest["annotations"][NAME], manifest["digest"]


def write(file: Path, name: str, program: Path, command: Sequence[str]) -> None:
    """An image that holds one program and nothing else; the same program makes the same image."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as content:
        content.addfile(_entry(command[0].lstrip("/"), program.read_bytes(), 0o755), io.BytesIO(program.read_bytes()))
    blobs: dict[str, bytes] = {}
    layer_of = _blob(blobs, f"{TYPE}.layer.v1.tar", layer.getvalue())
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": list(command), "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [layer_of["digest"]]},
    }
    config_of = _blob(blobs, f"{TYPE}.config.v1+json", json.dumps(config).encode())
    manifest = {"schemaVersion": 2, "mediaType": f"{TYPE}.manifest.v1+json", "config": config_of, "layers": [layer_of]}
    manifest_of = _blob(blobs, f"{TYPE}.manifest.v1+json", json.dumps(manifest).encode())
    index = {"schemaVersion": 2, "manifests": [{**manifest_of, "annotations": {NAME: name}}]}
    files = {
        "oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
        "index.json": json.dumps(index).encode(),
        **{f"blobs/sha256/{digest}": content for digest, content in blobs.items()},
    }
    with tarfile.open(file, "w") as archive:
        for path, data in files.items():
            archive.addfile(_entry(path, data), io.BytesIO(data))


def _blob(blobs: dict[str, bytes], kind: str, content: bytes) -> dict[str, Any]:
    """Add one; what others call it by."""
    digest = hashlib.sha256(content).hexdigest()
    blobs[digest] = content
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}


def _entry(path: str, content: bytes, mode: int = 0o644) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(content), mode
    return entry
