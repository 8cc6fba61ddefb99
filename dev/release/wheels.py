"""The wheels of a release: of three distributions in Python, and of the extension.

The extension is linked by zig, a pinned Python package, against the symbols of an old C library,
so one wheel runs on any Linux of the last years, and both architectures are built on either.
Folders of this machine, which Rust writes into panic messages, are mapped to fixed names.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from dev.release.sources import CommitSources
from dev.servers import cache
from dev.servers.cache import MissingTool

PINS = "requirements/release.txt"
PYTHON = {"landfall-kafka": ".", "landfall-audit": "audit", "landfall-migrate": "migrate"}
"""The folder of each distribution that hatchling builds."""
LIBC = "manylinux_2_28"
"""glibc of 2018: Debian 10, RHEL 8, Ubuntu 20.04 and newer."""
ARCHITECTURES = ("x86_64", "aarch64")


def build_python(
    sources: CommitSources, folder: Path, distributions: Iterable[str] = PYTHON
) -> None:
    """Build the wheels of distributions in Python into a folder.

    Raises:
        MissingTool: a build failed.
    """
    for name in distributions:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        cache.run(command, sources.environment, cwd=sources.root / PYTHON[name])


def build_extension(sources: CommitSources, folder: Path, architectures: Sequence[str]) -> None:
    """Build the wheels of the extension into a folder.

    Raises:
        MissingTool: Rust, or its standard library for an architecture, is missing.
    """
    targets = [f"{architecture}-unknown-linux-gnu" for architecture in architectures]
    if missing := missing_targets(targets):
        raise MissingTool(
            f"Rust's standard library is missing: rustup target add {' '.join(missing)}"
        )
    tools = _tools(sources.root / PINS)
    (zig,) = tools.glob("lib/*/site-packages/ziglang/zig")
    native, rust = sources.root / "native", _output("rustc", "--print", "sysroot")
    mapped = {str(native): "/native", rust: "/rust", str(_cargo_home()): "/cargo"}
    flags = [f"--remap-path-prefix={path}={name}" for path, name in mapped.items()]
    environment = {
        **sources.environment,
        "CARGO_ZIGBUILD_ZIG_PATH": str(zig),
        "CARGO_TARGET_DIR": str(sources.root / "target"),
        "CARGO_INCREMENTAL": "0",
        "PYO3_NO_PYTHON": "1",
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
    }
    options = ["--release", "--locked", "--zig", "--compatibility", LIBC, "--out", str(folder)]
    options += ["--interpreter", "python3.11", "--quiet"]
    for target in targets:
        command = [str(tools / "bin/maturin"), "build", "--target", target, *options]
        cache.run(command, environment, cwd=native)


def missing_targets(targets: Sequence[str]) -> list[str]:
    """The targets for which this machine's Rust has no standard library.

    Raises:
        MissingTool: there is no Rust.
    """
    cache.tool("cargo", "the wheel of the extension", "rustup")
    libraries = Path(_output("rustc", "--print", "sysroot")) / "lib/rustlib"
    return [target for target in targets if not (libraries / target / "lib").is_dir()]


def compiler() -> str:
    """The version of this machine's Rust, as it prints it."""
    return _output("rustc", "--version")


def _tools(pins: Path) -> Path:
    """The virtual environment with maturin and zig; installed once per machine."""

    def install(folder: Path) -> None:
        cache.virtualenv(folder / "venv", pins)

    announcement = "installing maturin and zig (once, a minute)"
    return cache.built("release-tools", pins.read_text(), install, announcement) / "venv"


def _cargo_home() -> Path:
    """Where cargo keeps the sources of crates: they have their paths in panic messages."""
    return Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")


def _output(*command: str) -> str:
    program = shutil.which(command[0])
    if not program:
        raise MissingTool(f"the wheel of the extension needs `{command[0]}`")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
