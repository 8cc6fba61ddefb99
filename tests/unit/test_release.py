"""Released images begin with files that a digest names."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.images import script
from tests.support.landing.processes import ROOT

DIGEST = f"@sha256:{'0a' * 32}"
BASE, RUST = f"registry.example:5000/debian:trixie-slim{DIGEST}", f"rust{DIGEST}"
DOCKER = '#!/bin/sh\nprintf "%s\\n" "$*" >> "$(dirname "$0")/said"\n'


@pytest.fixture
def docker(tmp_path: Path) -> Path:
    """A program in the place of docker that notes its arguments."""
    program = tmp_path / "docker"
    program.write_text(DOCKER)
    program.chmod(0o755)
    return program


def release(docker: Path, *arguments: str) -> tuple[int, str, str]:
    """Run ``docker/release``; returns the exit code, the error, and what docker was asked for."""
    run = subprocess.run(
        [script("release"), *arguments],
        env={**os.environ, "DOCKER": str(docker)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = docker.with_name("said")
    return run.returncode, run.stderr, said.read_text() if said.exists() else ""


def test_both_images_are_built_from_the_pinned_ones(docker: Path) -> None:
    code, error, said = release(docker, "1.2.3", BASE, RUST)

    assert (code, error) == (0, "")
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    label = "--label org.opencontainers.image"
    labels = f"{label}.version=1.2.3 {label}.revision={commit}"
    pinned = f"--build-arg BASE_IMAGE={BASE} --build-arg RUST_IMAGE={RUST}"
    assert said.splitlines() == [
        f"build --target {target} {pinned} {labels} -t landfall-{target}:1.2.3 ."
        for target in ("operator", "spark")
    ]


@pytest.mark.parametrize(
    "image",
    [
        "debian:trixie-slim",
        "debian@sha256:0a0a",
        f"debian{DIGEST}0",
        f"debian{DIGEST} --network=host",
        f"debian{DIGEST}\nx",
        f"--pull{DIGEST}",
        "",
    ],
)
def test_a_base_without_a_digest_is_refused(docker: Path, image: str) -> None:
    for images in ((image, RUST), (BASE, image)):
        code, error, said = release(docker, "1.2.3", *images)

        assert code == 2
        assert f"image '{image}' is not pinned" in error
        assert said == ""
