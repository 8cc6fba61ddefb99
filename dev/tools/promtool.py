"""promtool, Prometheus' checker and test runner for alert rules."""

import os
import sys
from pathlib import Path

from dev.servers import cache

PACKAGE = "github.com/prometheus/prometheus/cmd/promtool"
MODULE = Path(__file__).resolve().parent / "go/promtool"
TAGS = "remove_all_sd"
"""Without service discovery for the clouds, it builds in half the time."""


def program() -> Path:
    """The path of promtool.

    Raises:
        Missing: Go is not installed, or the build failed.
    """
    recipe = "".join((MODULE / name).read_text() for name in ("go.mod", "go.sum")) + TAGS
    announcement = "building promtool, which tests the alerts, with go (once, about two minutes)"
    return cache.built("promtool", recipe, _build_into, announcement) / "promtool"


def _build_into(folder: Path) -> None:
    go = cache.tool("go", "testing alerts", "golang")
    argv = [
        go,
        "build",
        "-C",
        str(MODULE),
        "-trimpath",
        "-tags",
        TAGS,
        "-ldflags",
        "-s -w",
        "-o",
        f"{folder}/",
        PACKAGE,
    ]
    cache.run(argv, {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"})


def main() -> None:
    """Replace this process by promtool."""
    try:
        path = program()
    except cache.MissingTool as missing:
        sys.exit(str(missing))
    os.execv(path, ["promtool", *sys.argv[1:]])  # noqa: S606  # no shell
