"""Builds Landfall's two images from the Dockerfile, without a registry, for clusters to load.

The base image is a Debian that mmdebstrap makes from packages, unless ``LANDFALL_BASE_IMAGE`` names
an image to pull. A finished image is stored under a digest of everything that it was made from, so
nothing is built twice; buildah caches the layers that a change does not affect. The package index
and the certificates of the user's pip reach the build as secrets and do not enter the images. Where
this machine has Rust, ``dev.kube.rust`` gives the build an image with it; without it the images
hold no landfall-native, and pure Python runs in pods.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from dev.kube import rust
from dev.kube.archive import OciLayout
from dev.kube.buildah import ISOLATION, buildah, exists
from dev.kube.rust import Toolchain
from dev.servers import cache
from dev.servers.cache import MissingTool, locked

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("operator", "spark")
REGISTRY = "landfall.local"
BASE = "LANDFALL_BASE_IMAGE"
SUITE = "bookworm"
CONTEXT = ("Dockerfile", ".dockerignore", "LICENSE", "README.md", "pyproject.toml")
FOLDERS = ("audit", "docker", "native", "operator", "requirements", "spark_app")
NOT_READ = frozenset({"__pycache__", "target"})
"""Folders with files generated from the sources."""
KEPT = 20
"""How many images of a target are kept. They share all layers but the last, and all working copies
of the repository share them.
"""
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

MMDEBSTRAP = (
    "--variant=minbase",
    '--aptopt=Acquire::Languages "none"',
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
)

# buildah always compresses the layers of an OCI layout; its default, gzip, takes twice as long.
COMPRESSION = ("--compression-format", "zstd", "--compression-level", "1")


@dataclass(frozen=True)
class Sources:
    """A copy of the repository that images are built from, and the tag that they get."""

    root: Path = ROOT
    tag: str = "dev"

    def image(self, target: str) -> str:
        """The name of an image for pods, once it is loaded."""
        return f"{REGISTRY}/landfall-{target}:{self.tag}"


CURRENT = Sources()
"""The sources that this file belongs to."""


def check() -> None:
    """Return if this machine can build images.

    Raises:
        MissingTool: It cannot; the message names what is missing.
    """
    for name in ("buildah",) if os.environ.get(BASE) else ("buildah", "mmdebstrap"):
        cache.tool(name, "building images", name)


def ensure(
    targets: Sequence[str] = TARGETS,
    use: Callable[[OciLayout, str, str], object] = lambda *_: None,
    sources: Sources = CURRENT,
) -> None:
    """Build images unless they exist, and call ``use`` for each of them.

    ``use`` gets the layout, the name of the image in the layout, and its name for pods.

    Raises:
        MissingTool: A program is missing, or the build fails.
    """
    layout = OciLayout(cache.folder() / "images")
    with locked(layout.folder / "lock"):
        for target in targets:
            use(layout, _built(layout, target, sources), sources.image(target))


def _built(layout: OciLayout, target: str, sources: Sources) -> str:
    image = sources.image(target)
    with tempfile.TemporaryDirectory(prefix="landfall-") as folder:
        context, settings = Path(folder, "context"), Path(folder, "settings")
        # A copy, so that the digest is of exactly the files that are built, even if the sources are
        # edited during the build.
        _copy(sources.root, context)
        toolchain = native_toolchain(target, context)
        recipes = (_base_recipe(), toolchain.version if toolchain else "")
        stored = f"{target}-{digest_of(context, *recipes)}"
        if stored not in layout.names():
            print(
                f"building {image} (minutes the first time, then seconds)",
                file=sys.stderr,
                flush=True,
            )
            began = monotonic()
            settings.mkdir()
            _build(target, image, context, toolchain, _pip_settings(settings))
            buildah("push", "--quiet", *COMPRESSION, image, f"oci:{layout.folder}:{stored}")
            layout.prune(target, KEPT)
            print(f"{image} built in {monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return stored


def _build(
    target: str,
    image: str,
    context: Path,
    toolchain: Toolchain | None,
    secrets: Iterable[tuple[str, Path]],
) -> None:
    if os.geteuid() != 0:
        raise MissingTool("building images needs root")
    base = _base()
    builder = rust.image(toolchain, context, base, REGISTRY) if toolchain else base
    options = [f"--secret=id={name},src={file}" for name, file in secrets]
    options += [
        ISOLATION,
        "--layers",
        f"--target={target}",
        f"--build-arg=BASE_IMAGE={base}",
        f"--build-arg=RUST_IMAGE={builder}",
    ]
    buildah("build", "--quiet", *options, "--tag", image, str(context))


def _copy(root: Path, to: Path) -> None:
    for file in files_of(root):
        copy = to / file.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy)


def digest_of(root: Path, *recipes: str) -> str:
    """The digest of everything that an image is made from: the files, base and compiler."""
    digest = hashlib.sha256("\n".join(recipes).encode())
    for file in files_of(root):
        digest.update(
            f"{file.relative_to(root)} {file.stat().st_mode & 0o100:o} "
            f"{file.stat().st_size}\n".encode()
        )
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def files_of(root: Path) -> list[Path]:
    """The files that a build may read: those that ``.dockerignore`` admits."""
    files = [root / name for name in CONTEXT]
    files += [file for folder in FOLDERS for file in (root / folder).rglob("*") if file.is_file()]
    return sorted(file for file in files if _is_source(file.relative_to(root)))


def _is_source(file: Path) -> bool:
    return not NOT_READ & {*file.parts} and file.suffix != ".pyc"


def native_toolchain(target: str, root: Path = ROOT) -> Toolchain | None:
    """The Rust that builds landfall-native for an image; None if the image gets pure Python."""
    if target != "spark":
        return None
    try:
        return rust.find(root)
    except MissingTool as missing:
        print(f"images without landfall-native: {missing}", file=sys.stderr)
        return None


def _base() -> str:
    """The name of the base image; builds it if necessary."""
    if os.environ.get(BASE):
        return os.environ[BASE]
    name = f"{REGISTRY}/debian:{SUITE}-{hashlib.sha256(_base_recipe().encode()).hexdigest()[:12]}"
    if exists(name):
        return name

    def make(folder: Path) -> None:
        mmdebstrap = cache.tool("mmdebstrap", "building images", "mmdebstrap")
        cache.run([mmdebstrap, *MMDEBSTRAP, SUITE, str(folder / "base.tar")])

    announcement = f"making a Debian {SUITE} image from packages (once, half a minute)"
    tar = cache.built(f"debian-{SUITE}", _base_recipe(), make, announcement) / "base.tar"
    container = buildah("from", "scratch").strip()
    buildah("add", "--quiet", container, str(tar), "/")
    buildah("config", "--cmd", "bash", container)
    buildah("commit", "--quiet", "--rm", container, name)
    return name


def _base_recipe() -> str:
    return os.environ.get(BASE) or " ".join([*MMDEBSTRAP, SUITE])


def _pip_settings(folder: Path) -> Iterator[tuple[str, Path]]:
    """The secrets of the build: the user's package index, and the certificates of this machine."""
    done = subprocess.run(["pip", "config", "list"], capture_output=True, text=True, check=False)
    lines = pip_settings(done.stdout.splitlines())
    if lines:
        file = folder / "pip.conf"
        file.touch(mode=0o600)
        file.write_text("\n".join(["[global]", *lines, ""]))
        yield "pip.conf", file
    certificates = Path(os.environ.get("PIP_CERT") or CERTIFICATES)
    if certificates.is_file():
        yield "ca.pem", certificates


def pip_settings(listed: Sequence[str]) -> list[str]:
    """The lines of a ``pip.conf`` about the index.

    Args:
        listed: The output of ``pip config list``: ``global.index-url='https://…'``.
    """
    wanted = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout")
    settings = {}
    for line in listed:
        name, _, value = line.partition("=")
        key = name.rpartition(".")[2].removeprefix("default-")
        if key in wanted:
            settings[key] = value.strip("'").replace("\\n", "\n  ")
    return [f"{key} = {value}" for key, value in settings.items()]
