"""What bills of materials and lists of licenses say, of this virtual environment."""

import json
import re
from importlib import metadata
from pathlib import Path

import pyspark
import pytest

from dev.tools import sbom
from tests.support.images import started

pytestmark = pytest.mark.xdist_group("sbom")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sbom")
    sbom.write(folder)
    return folder


def components(made: Path) -> dict[str, dict[str, object]]:
    """By package URL."""
    document = json.loads((made / "sbom.cdx.json").read_text())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    return {each["purl"]: each for each in document["components"]}


def test_every_package_jar_and_crate_is_there(made: Path) -> None:
    found = components(made)
    names = {re.sub(r"[-_.]+", "-", d.metadata["Name"]).lower() for d in metadata.distributions()}
    jars = {file.stem for file in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}

    assert {url[9:].partition("@")[0] for url in found if url.startswith("pkg:pypi/")} == names
    in_bom = (url.rpartition("/")[2] for url in found if url.startswith("pkg:maven/"))
    assert {url.replace("@", "-") for url in in_bom} == jars
    assert any(url.startswith("pkg:cargo/pyo3@") for url in found)


def test_the_list_names_a_license_and_its_text(made: Path) -> None:
    rows = (made / "THIRD-PARTY.md").read_text().splitlines()
    (certifi,) = [row for row in rows if row.startswith("| pypi | certifi |")]
    (kryo,) = [row for row in rows if "com.esotericsoftware:kryo-shaded" in row]

    text = certifi.split(" | ")[-1].removesuffix(" |")
    assert "Mozilla Public License 2.0" in certifi
    assert "Mozilla Public License" in Path(text).read_text()
    assert "BSD" in kryo


def test_the_same_packages_give_the_same_bytes(made: Path, tmp_path: Path) -> None:
    sbom.write(tmp_path)

    for name in ("sbom.cdx.json", "THIRD-PARTY.md"):
        assert (tmp_path / name).read_bytes() == (made / name).read_bytes()


def test_both_images_have_them() -> None:
    for target, stage in zip(("operator", "spark"), started(), strict=True):
        assert f"\nCOPY --from={target}-bom /made/ /opt/landfall/\n" in stage
