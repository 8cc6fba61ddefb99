"""Query engines that did not write Landfall's tables, to read and change them in tests.

Spark with Iceberg's and Delta Lake's jars, DuckDB with its extensions, polars, daft, pyiceberg and
deltalake, in a virtual environment of their own: they need another PySpark and another DuckDB than
Landfall. ``VERSIONS`` are those that the documentation of the publishers names.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from dev.servers import cache
from dev.servers.schema_registry import COPY

PINS = Path(__file__).resolve().parents[2] / "requirements/engines.txt"
JARS = {
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0": (
        "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82"
    ),
    "io.delta:delta-spark_4.1_2.13:4.4.0": (
        "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10"
    ),
    "io.delta:delta-storage:4.4.0": (
        "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc"
    ),
    "org.xerial:sqlite-jdbc:3.50.3.0": (
        "a3f53a2aa15ae9425a9e793bbe9c8e5288febeb4b65ef5c1a4e80d4c2045cf08"
    ),
}
"""By Maven coordinates the SHA-256: those for the last Spark that Iceberg has a runtime for."""
DUCKDB_EXTENSIONS = ("avro", "delta", "httpfs", "iceberg")
_PLATFORM = "import duckdb; print(duckdb.execute('pragma platform').fetchone()[0])"


def home() -> Path:
    """Return the folder with ``venv``, ``jars`` and DuckDB's extensions, and make it if necessary.

    Raises:
        Missing: this machine has no Maven, or an installation failed.
    """
    recipe = f"{PINS.read_text()}{JARS}{DUCKDB_EXTENSIONS}{sys.version_info[:2]}"
    announcement = (
        "installing Spark, DuckDB, polars and daft to read tables with (once, about a minute, 1 GB)"
    )
    return cache.built("engines", recipe, _build_into, announcement)


def _build_into(folder: Path) -> None:
    cache.run([sys.executable, "-m", "venv", str(folder / "venv")])
    venv = str(folder / "venv/bin/python")
    pip = [venv, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    cache.run([*pip, "--require-hashes", "-r", str(PINS)])
    _copy_extensions(folder, venv)
    mvn = cache.tool("mvn", "reading tables with Spark", "maven")
    jars = folder / "jars"
    for artifact, sha256 in JARS.items():
        options = [f"-Dartifact={artifact}", f"-DoutputDirectory={jars}"]
        cache.run([mvn, "-q", "-B", "-C", "-ntp", COPY, *options])
        _, name, version = artifact.split(":")
        with (jars / f"{name}-{version}.jar").open("rb") as jar:
            found = hashlib.file_digest(jar, "sha256").hexdigest()
        if found != sha256:
            raise cache.Missing(f"{artifact} has SHA-256 {found}, expected {sha256}")


def main() -> None:
    """Install the engines if necessary."""
    try:
        home()
    except cache.Missing as missing:
        sys.exit(str(missing))


def _copy_extensions(folder: Path, venv: str) -> None:
    """Copy DuckDB's extensions from their packages to where DuckDB looks for them."""
    done = subprocess.run([venv, "-c", _PLATFORM], capture_output=True, text=True, check=True)
    for name in DUCKDB_EXTENSIONS:
        (source,) = folder.glob(f"venv/lib/*/site-packages/duckdb_extension_{name}/extensions/*/*")
        target = folder / "duckdb" / source.parent.name / done.stdout.strip()
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


if __name__ == "__main__":
    main()
