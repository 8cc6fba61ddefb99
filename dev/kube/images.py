"""Landfall's two images, built from the Dockerfile here and kept where clusters load them from. Needs no registry.

The base is a Debian made by mmdebstrap from packages alone, unless ``LANDFALL_BASE_IMAGE`` names
one to pull. A finished image is filed under a digest of all it was made from, so that nothing is
built twice; buildah's own cache keeps what a change leaves as it was. Index and certificates of the
user's pip reach the build as secrets, and stay out of the images.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from time import monotonic

from dev.kube.archive import Layout
from dev.servers import cache
from dev.servers.cache import Missing, locked

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("operator", "spark")
REGISTRY = "landfall.local"
BASE = "LANDFALL_BASE_IMAGE"
SUITE = "bookworm"
CONTEXT = ("Dockerfile", ".dockerignore", "LICENSE", "README.md", "pyproject.toml")
FOLDERS = ("docker", "operator", "requirements", "spark_app")
KEPT = 20
"""So many images of a target: they share all layers but the last, and several working copies share
them.
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

# layers in such a folder are compressed whatever one says; gzip, the default, takes twice as long
CHEAPLY = ("--compression-format", "zstd", "--compression-level", "1")


def image(target: str) -> str:
    """What pods call an image, once it is loaded."""
    return f"{REGISTRY}/landfall-{target}:dev"


def check() -> None:
    """Let images be built here.

    Raises:
        Missing: says what this machine lacks.
    """
    for name in ("buildah",) if os.environ.get(BASE) else ("buildah", "mmdebstrap"):
        cache.tool(name, "building images", name)


def have(
    targets: Sequence[str] = TARGETS, use: Callable[[Layout, str, str], object] = lambda *_: None
) -> None:
    """Have images of the sources as they are now, and use each of them: the layout, its name there, and what pods call it.

    Raises:
        Missing: a program is not there, or the build fails; says which and why.
    """
    layout = Layout(cache.folder() / "images")
    with locked(layout.folder / "lock"):
        for target in targets:
            use(layout, _built(layout, target), image(target))


def _built(layout: Layout, target: str) -> str:
    with tempfile.TemporaryDirectory(prefix="landfall-") as folder:
        context, settings = Path(folder, "context"), Path(folder, "settings")
        _copy(
            sources(ROOT), context
        )  # so that what somebody writes meanwhile is in the digest or not in the image
        filed = f"{target}-{digest_of(context, _base_recipe())}"
        if filed not in layout.names():
            print(
                f"building {image(target)} (minutes the first time, then seconds)",
                file=sys.stderr,
                flush=True,
            )
            begun = monotonic()
            settings.mkdir()
            _build(target, context, _pip_settings(settings))
            _buildah("push", "--quiet", *CHEAPLY, image(target), f"oci:{layout.folder}:{filed}")
            layout.prune(target, KEPT)
            print(
                f"{image(target)} built in {monotonic() - begun:.0f} s", file=sys.stderr, flush=True
            )
    return filed


def _build(target: str, context: Path, secrets: Iterable[tuple[str, Path]]) -> None:
    if os.geteuid() != 0:
        raise Missing("building images needs root")
    options = [f"--secret=id={name},src={file}" for name, file in secrets]
    options += [
        "--isolation=chroot",
        "--layers",
        f"--target={target}",
        f"--build-arg=BASE_IMAGE={_base()}",
    ]
    _buildah("build", "--quiet", *options, "--tag", image(target), str(context))


def _copy(files: Iterable[Path], to: Path) -> None:
    for file in files:
        copy = to / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy)


def digest_of(root: Path, base: str) -> str:
    """Of everything an image is made from."""
    digest = hashlib.sha256(base.encode())
    for file in sources(root):
        digest.update(
            f"{file.relative_to(root)} {file.stat().st_mode & 0o100:o} {file.stat().st_size}\n".encode()
        )
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def sources(root: Path) -> list[Path]:
    """The files that a build may read; the same as in ``.dockerignore``."""
    files = [root / name for name in CONTEXT]
    files += [file for folder in FOLDERS for file in (root / folder).rglob("*") if file.is_file()]
    return sorted(
        file for file in files if "__pycache__" not in file.parts and file.suffix != ".pyc"
    )


def _base() -> str:
    """The name of the base image, which is there."""
    if os.environ.get(BASE):
        return os.environ[BASE]
    name = f"{REGISTRY}/debian:{SUITE}-{hashlib.sha256(_base_recipe().encode()).hexdigest()[:12]}"
    if _buildah("images", "--quiet", "--filter", f"reference={name}").strip():
        return name

    def make(folder: Path) -> None:
        mmdebstrap = cache.tool("mmdebstrap", "building images", "mmdebstrap")
        cache.run([mmdebstrap, *MMDEBSTRAP, SUITE, str(folder / "base.tar")])

    announcement = f"making a Debian {SUITE} from packages (once, half a minute)"
    tar = cache.built(f"debian-{SUITE}", _base_recipe(), make, announcement) / "base.tar"
    container = _buildah("from", "scratch").strip()
    _buildah("add", "--quiet", container, str(tar), "/")
    _buildah("config", "--cmd", "bash", container)
    _buildah("commit", "--quiet", "--rm", container, name)
    return name


def _base_recipe() -> str:
    return os.environ.get(BASE) or " ".join([*MMDEBSTRAP, SUITE])


def _buildah(*arguments: str) -> str:
    """What buildah prints."""
    storage = cache.folder() / "buildah"
    driver = os.environ.get("STORAGE_DRIVER", "overlay")
    places = [
        "--root",
        f"{storage}/storage",
        "--runroot",
        f"{storage}/run",
        "--storage-driver",
        driver,
    ]
    program = cache.tool("buildah", "building images", "buildah")
    done = subprocess.run(
        [program, *places, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise Missing(f"`buildah {arguments[0]}` failed with exit code {done.returncode}:\n{said}")
    return done.stdout


def _pip_settings(folder: Path) -> Iterator[tuple[str, Path]]:
    """Secrets for the build: the user's package index, and the certificates this machine trusts."""
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
    """Lines of a ``pip.conf`` about the index, out of what ``pip config list`` prints: ``global.index-url='https://…'``."""
    wanted = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout")
    settings = {}
    for line in listed:
        name, _, value = line.partition("=")
        key = name.rpartition(".")[2].removeprefix("default-")
        if key in wanted:
            settings[key] = value.strip("'").replace("\\n", "\n  ")
    return [f"{key} = {value}" for key, value in settings.items()]
