"""A bill of materials of this installation: ``python -m dev.tools.sbom FOLDER``.

It is written by docker/bom.py, which also writes the images', with the library of CycloneDX in a
virtual environment of its own.
"""

import sys
import sysconfig
from pathlib import Path

from dev.servers import cache

ROOT = Path(__file__).resolve().parents[2]
PINS = ROOT / "requirements/sbom.txt"


def python() -> Path:
    """The Python that has the library; it is installed if necessary.

    Raises:
        Missing: the installation failed.
    """
    recipe = f"{PINS.read_text()}{sys.version_info[:2]}"
    announcement = "installing the library that writes bills of materials (once, seconds)"
    return cache.built("sbom", recipe, _build_into, announcement) / "venv/bin/python"


def _build_into(folder: Path) -> None:
    cache.run([sys.executable, "-m", "venv", str(folder / "venv")])
    pip = [str(folder / "venv/bin/python"), "-m", "pip", "install", "-q"]
    options = ["--disable-pip-version-check", "--no-deps", "--require-hashes"]
    cache.run([*pip, *options, "-r", str(PINS)])


def write(folder: Path, name: str = "landfall") -> None:
    """Write ``sbom.cdx.json`` and ``THIRD-PARTY.md`` of this virtual environment to a folder.

    Raises:
        Missing: as ``python``, or docker/bom.py failed.
    """
    packages = sysconfig.get_path("purelib")
    given = ["--site-packages", packages, "--jars", f"{packages}/pyspark/jars"]
    given += ["--crates", str(ROOT / "native/Cargo.lock")]
    script = str(ROOT / "docker/bom.py")
    cache.run([str(python()), "-W", "ignore", script, name, str(folder), *given])


def main() -> None:
    """Write both files to the folder that the argument names."""
    try:
        write(Path(sys.argv[1]))
    except cache.MissingTool as missing:
        sys.exit(str(missing))


if __name__ == "__main__":
    main()
