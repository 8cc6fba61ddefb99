"""The bill of materials of the wheels: what they need, in the versions that were tested.

Wheels contain nothing of other projects but the crates that are linked into the extension; the
rest is installed by pip. The images have bills of their own.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from dev.release.sources import CommitSources
from dev.servers import cache
from dev.tools import sbom

PINS = ("spark", "stores", "publishers", "operator")
"""Files in ``requirements/``: of all extras together."""


def write(sources: CommitSources, folder: Path) -> Path:
    """Write the bill of materials to a folder, as CycloneDX; returns the file.

    Raises:
        MissingTool: a package cannot be installed.
    """
    pins = [sources.root / f"requirements/{name}.txt" for name in PINS]
    recipe = "\n".join([sys.version, *(file.read_text() for file in pins)])

    def install(to: Path) -> None:
        uv = str(Path(sys.executable).with_name("uv"))
        options = ["--target", str(to / "packages"), "--no-deps", "--require-hashes"]
        requirements = [option for file in pins for option in ("-r", str(file))]
        python = ["--python", sys.executable]
        cache.run([uv, "pip", "install", "-q", *python, *options, *requirements])

    announcement = "installing all that the wheels need, for a bill of materials (once, a minute)"
    packages = cache.built("release-packages", recipe, install, announcement) / "packages"
    given = ["--site-packages", str(packages), "--jars", str(packages / "pyspark/jars")]
    given += ["--crates", str(sources.root / "native/Cargo.lock")]
    name = f"landfall-{sources.version}"
    with tempfile.TemporaryDirectory(prefix="landfall-") as made:
        bill = sbom.write(Path(made), name, given)
        return Path(shutil.copyfile(bill, folder / f"{name}.sbom.cdx.json"))
