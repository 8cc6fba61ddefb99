"""What docker/trim-spark leaves of Spark: texts of licenses, and all that Landfall needs to run."""

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyspark
import pytest

from tests.support.images import script
from tests.support.pages.markdown import ROOT

INSTALLED = Path(pyspark.__file__).parent
REMOVED = {
    "commons-lang-2.6.jar": b"org/apache/commons/lang/",
    "oro-2.0.8.jar": b"org/apache/oro/",
    "derby-10.16.1.1.jar": b"org/apache/derby/",
    "libthrift-0.16.0.jar": b"org/apache/thrift/",
}
"""Jars that scanners report, and how the classes in them are called."""
OPTIONAL = "org/apache/ivy/plugins/matcher/GlobPatternMatcher"
"""A matcher of names that only a settings file of Ivy's could ask for."""
JOB = """
from pyspark import SparkContext
context = SparkContext("local[2]", "trimmed")
assert context.parallelize(range(4), 4).map(str).collect() == ["0", "1", "2", "3"]
context.stop()
print("landed")
"""

pytestmark = pytest.mark.xdist_group("trimmed_spark")


@pytest.fixture(scope="module")
def trimmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the installed pyspark, trimmed as in the image."""
    folder = tmp_path_factory.mktemp("trimmed") / "pyspark"
    subprocess.run(["cp", "-r", "--symbolic-link", str(INSTALLED), str(folder)], check=True)
    subprocess.run([str(script("trim-spark")), str(folder)], check=True)
    return folder


def users(jars: Path, names: Iterable[bytes]) -> Iterator[str]:
    """Classes in these jars that name classes of one of these packages."""
    # Not the same name below another one's, as in shaded/parquet/org/apache/thrift/.
    named = re.compile(b"(?<!/)(" + b"|".join(names) + b")")
    for jar in sorted(jars.glob("*.jar")):
        with zipfile.ZipFile(jar) as file:
            for member in file.namelist():
                if member.endswith(".class") and (name := named.search(file.read(member))):
                    yield f"{jar.name}: {member} names {name[1].decode()}"


def test_the_texts_of_licenses_stay(trimmed: Path) -> None:
    before = {file.name for file in (INSTALLED / "licenses").iterdir()}

    assert {file.name for file in (trimmed / "licenses").iterdir()} == before
    assert len(before) > 50


def test_what_scanners_report_is_gone(trimmed: Path) -> None:
    left = {file.name for file in (trimmed / "jars").iterdir()}

    assert {*REMOVED} <= {file.name for file in (INSTALLED / "jars").iterdir()}
    assert not {*REMOVED} & left
    assert not [name for name in left if re.match(r"(commons-lang-|oro-|derby|libthrift)", name)]


@pytest.mark.slow
def test_no_class_that_stays_needs_one_that_is_gone(trimmed: Path) -> None:
    found = users(trimmed / "jars", REMOVED.values())

    assert [each for each in found if OPTIONAL not in each] == []


def statements() -> list[tuple[str, str, str]]:
    """Product, jar and justification of each statement of the VEX document."""
    document = json.loads((ROOT / "docker/openvex.json").read_text())
    return [
        (product["@id"], "-".join(part["@id"].rpartition("/")[2].split("@")), s["justification"])
        for s in document["statements"]
        for product in s["products"]
        for part in product["subcomponents"]
    ]


def test_what_the_vex_document_says_of_jars_is_so(trimmed: Path) -> None:
    installed = {file.stem for file in (INSTALLED / "jars").iterdir()}
    left = {file.stem for file in (trimmed / "jars").iterdir()}
    absent = {jar for product, jar, why in statements() if why == "component_not_present"}
    others = {jar for product, jar, why in statements() if product == "pkg:pypi/landfall"}

    assert absent == others
    assert absent <= installed - left


def test_a_job_runs(trimmed: Path) -> None:
    environment = {
        **os.environ,
        "SPARK_HOME": str(trimmed),
        "PYTHONPATH": str(trimmed.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }

    done = subprocess.run(
        [sys.executable, "-c", JOB], env=environment, capture_output=True, text=True, check=False
    )

    assert done.stdout.splitlines()[-1:] == ["landed"], done.stderr[-2000:]
