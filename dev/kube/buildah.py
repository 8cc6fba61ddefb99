"""buildah, with its images in Landfall's cache, apart from root's."""

import os
import subprocess

from dev.servers import cache
from dev.servers.cache import MissingTool

ISOLATION = "--isolation=chroot"
"""For the options of ``build`` and ``run``: needs no container runtime."""


def buildah(*arguments: str) -> str:
    """Run buildah; returns its output.

    Raises:
        MissingTool: There is no buildah, or it failed; the message has the end of its output.
    """
    storage = cache.folder() / "buildah"
    driver = os.environ.get("STORAGE_DRIVER", "overlay")
    options = [
        "--root",
        f"{storage}/storage",
        "--runroot",
        f"{storage}/run",
        "--storage-driver",
        driver,
    ]
    program = cache.tool("buildah", "building images", "buildah")
    done = subprocess.run(
        [program, *options, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        output = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise MissingTool(
            f"`buildah {arguments[0]}` failed with exit code {done.returncode}:\n{output}"
        )
    return done.stdout


def exists(image: str) -> bool:
    """Return whether an image of this name was made here."""
    return bool(buildah("images", "--quiet", "--filter", f"reference={image}").strip())
