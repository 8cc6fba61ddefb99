"""A bill of materials of this installation: ``python -m dev.tools.sbom FOLDER``.

It is written by docker/bom.py, which also writes the images', with the library of CycloneDX in a
virtual environment of its own.
"""

import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from dev.servers import cache

ROOT = Path(__file__).resolve().parents[2]
PINS = ROOT / "requirements/sbom.txt"


def python() -> Path:
    """The Python that has the library; it is installed if necessary.

    Raises:
        MissingTool: the installation failed.
    """
    recipe = f"{PINS.read_text()}{sys.version_info[:2]}"
    announcement = "installing the library that writes bills of materials (once, seconds)"
    return cache.built("sbom", recipe, _build_into, announcement) / "venv/bin/python"


def _build_into(folder: Path) -> None:
    cache.run([sys.executable, "-m", "venv", str(folder / "venv")])
    pip = [str(folder / "venv/bin/python"), "-m", "pip", "install", "-q"]
    options = ["--disable-pip-version-check", "--no-deps", "--require-hashes"]
    cache.run([*pip, *options, "-r", str(PINS)])


def write(folder: Path, name: str = "landfall", of: Sequence[str] = ()) -> Path:
    """Write ``sbom.cdx.json`` and ``THIRD-PARTY.md`` to a folder; returns the first of them.

    Args:
        folder: where to write them; it is made.
        name: of what they are the bill.
        of: arguments of docker/bom.py; none: this virtual environment.

    Raises:
        MissingTool: as ``python``, or docker/bom.py failed.
    """
    packages = sysconfig.get_path("purelib")
    own = ["--site-packages", packages, "--jars", f"{packages}/pyspark/jars"]
    own += ["--crates", str(ROOT / "native/Cargo.lock")]
    script = str(ROOT / "docker/bom.py")
    cache.run([str(python()), "-W", "ignore", script, name, str(folder), *(of or own)])
    return folder / "sbom.cdx.json"


def main() -> None:
    """Write both files to the folder that the argument names."""
    try:
        write(Path(sys.argv[1]))
    except cache.MissingTool as missing:
        sys.exit(str(missing))


if __name__ == "__main__":
    main()
