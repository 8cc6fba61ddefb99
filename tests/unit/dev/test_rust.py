"""An image gets landfall-native where this machine has a Rust that can build it."""

import os
import shutil
from pathlib import Path

import pytest

from dev.kube import rust
from dev.kube.images import ROOT, native_toolchain
from dev.servers.cache import MissingTool
from landfall.native import hot_path

MANIFEST = {"package": {"rust-version": "1.88"}}


@pytest.mark.parametrize(
    ("release", "host", "problem"),
    [
        ("1.88.0", "x86_64-unknown-linux-gnu", ""),
        ("1.100.1", "aarch64-unknown-linux-gnu", ""),
        ("1.97.0-nightly", "x86_64-unknown-linux-gnu", ""),
        ("2.0.0", "x86_64-unknown-linux-gnu", ""),
        ("1.63.0", "x86_64-unknown-linux-gnu", "Rust 1.63 is older than 1.88"),
        ("1.95.0", "x86_64-unknown-linux-musl", "the Rust of this machine does not run on Debian"),
        ("1.95.0", "aarch64-apple-darwin", "the Rust of this machine does not run on Debian"),
    ],
)
def test_the_extension_needs_a_new_rust_for_linux(release: str, host: str, problem: str) -> None:
    version = f"rustc 1 (1 2026-01-01)\nbinary: rustc\nhost: {host}\nrelease: {release}\n"

    assert rust.unusable(version, MANIFEST) == problem


def test_without_cargo_an_image_gets_pure_python(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")

    assert native_toolchain("spark") is None
    assert capsys.readouterr().err == "images without landfall-native: no cargo\n"


@pytest.mark.parametrize("value", ["off", "False", "0"])
def test_the_switch_leaves_the_extension_out(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rust.SWITCH, value)

    assert hot_path.__wrapped__().module is None  # as it does in a process
    with pytest.raises(MissingTool, match=f"^LANDFALL_NATIVE is {value}$"):
        rust.find(ROOT)


def test_sources_from_before_the_extension_need_no_cargo(tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match="have no landfall-native"):
        rust.find(tmp_path)


def test_the_toolchain_is_the_one_that_cargo_here_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(rust.SWITCH, raising=False)
    if not shutil.which("cargo"):
        pytest.skip("no cargo")

    try:
        found = rust.find(ROOT)
    except MissingTool as missing:
        pytest.skip(str(missing))

    assert os.access(found.folder / "bin" / "rustc", os.X_OK)
    assert found.version.startswith("rustc ")
