"""The image in which the Dockerfile builds landfall-native, made of this machine's Rust.

No registry of images is asked for ``rust:1-slim-bookworm``. The compiler of this machine is copied
onto the base image, with a C linker from Debian's packages, so that the extension is linked to the
C library of the image that it will run in. The crates come from this machine's cargo, with its
mirrors and certificates, and the build itself needs no network.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from dev.kube.buildah import ISOLATION, buildah, exists
from dev.servers import cache
from dev.servers.cache import MissingTool

SWITCH = "LANDFALL_NATIVE"
"""The environment variable that decides whether images have the extension; unset, they have."""
OFF = frozenset({"off", "no", "false", "0"})
"""Values that switch it off, as in ``landfall.native``."""
LINKER = ("gcc", "libc6-dev")
RUST, CARGO = "/opt/rust", "/opt/cargo"
CRATES_FROM_FOLDER = f"""
[source.crates-io]
replace-with = "vendored"
[source.vendored]
directory = "{CARGO}/vendor"
"""
_SHARED = frozenset({"/usr", "/usr/local"})
"""Prefixes of a compiler that cannot be copied alone."""


@dataclass(frozen=True)
class Toolchain:
    """A Rust of this machine that can build the extension.

    Attributes:
        folder: its folder, with ``bin`` and ``lib``.
        version: the output of ``rustc -vV``.
    """

    folder: Path
    version: str


def find(root: Path) -> Toolchain:
    """Return the toolchain for the extension of a copy of the repository.

    Raises:
        MissingTool: There is none; the message has the reason.
    """
    manifest = root / "native" / "Cargo.toml"
    if not manifest.is_file():
        raise MissingTool("these sources have no landfall-native")
    if os.environ.get(SWITCH, "").lower() in OFF:
        raise MissingTool(f"{SWITCH} is {os.environ[SWITCH]}")
    if not shutil.which("cargo") or not shutil.which("rustc"):
        raise MissingTool("no cargo")
    version = _output("rustc", "-vV", root=root)
    folder = Path(_output("rustc", "--print", "sysroot", root=root).strip())
    if problem := unusable(version, tomllib.loads(manifest.read_text())):
        raise MissingTool(problem)
    if str(folder) in _SHARED or not (folder / "bin" / "cargo").is_file():
        raise MissingTool(f"the Rust in {folder} cannot be copied; one that rustup installs can")
    return Toolchain(folder, version)


def unusable(version: str, manifest: dict[str, dict[str, str]]) -> str:
    """Why a compiler cannot build a crate for Debian; empty if it can.

    Args:
        version: The output of ``rustc -vV``.
        manifest: The crate's ``Cargo.toml``.
    """
    release = re.search(r"^release: (\d+)\.(\d+)", version, re.MULTILINE)
    host = re.search(r"^host: \S+-linux-gnu$", version, re.MULTILINE)
    needed = manifest["package"]["rust-version"]
    if not release or not host:
        return "the Rust of this machine does not run on Debian"
    if [*map(int, release.groups())] < [*map(int, needed.split(".")[:2])]:
        return f"Rust {release[1]}.{release[2]} is older than {needed}"
    return ""


def image(toolchain: Toolchain, root: Path, base: str, registry: str) -> str:
    """The name of the image; makes it if necessary.

    Raises:
        MissingTool: A crate or a package is not available.
    """
    compiler = _with_compiler(toolchain, base, f"{registry}/rust")
    lock = (root / "native" / "Cargo.lock").read_text()
    name = f"{registry}/rust-crates:{_digest(compiler, lock, CRATES_FROM_FOLDER)}"
    if exists(name):
        return name
    with tempfile.TemporaryDirectory(prefix="landfall-") as folder:
        vendored, settings = Path(folder, "vendor"), Path(folder, "config.toml")
        manifest = str(root / "native" / "Cargo.toml")
        vendoring = ("vendor", "--quiet", "--locked", "--versioned-dirs", "--manifest-path")
        cache.run(["cargo", *vendoring, manifest, str(vendored)])
        settings.write_text(CRATES_FROM_FOLDER)
        container = buildah("from", compiler).strip()
        buildah("copy", "--quiet", container, str(vendored), f"{CARGO}/vendor")
        buildah("copy", "--quiet", container, str(settings), f"{CARGO}/config.toml")
        buildah("commit", "--quiet", "--rm", container, name)
    return name


def _with_compiler(toolchain: Toolchain, base: str, repository: str) -> str:
    name = f"{repository}:{_digest(base, toolchain.version, *LINKER)}"
    if exists(name):
        return name
    container = buildah("from", base).strip()
    packages = f"apt-get install -y --no-install-recommends {' '.join(LINKER)}"
    buildah("run", ISOLATION, container, "sh", "-c", f"apt-get update && {packages}")
    for part in ("bin", "lib"):
        buildah("copy", "--quiet", container, str(toolchain.folder / part), f"{RUST}/{part}")
    path = f"{RUST}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    buildah("config", "--env", f"PATH={path}", "--env", f"CARGO_HOME={CARGO}", container)
    buildah("commit", "--quiet", "--rm", container, name)
    return name


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _output(*argv: str, root: Path) -> str:
    done = subprocess.run(
        argv, cwd=root / "native", capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        raise MissingTool(f"`{' '.join(argv)}` failed: {done.stderr.strip()}")
    return done.stdout
