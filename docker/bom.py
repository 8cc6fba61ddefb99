"""Writes what an image is made of: a bill of materials (CycloneDX) and a list of licenses.

    bom.py NAME FOLDER [--site-packages FOLDER] [--jars FOLDER] [--crates LOCK] [--debian STATUS]

``FOLDER/sbom.cdx.json`` is for programs, ``FOLDER/THIRD-PARTY.md`` for people: each package with
its version, its license as it says itself, and where its text is in the image. It needs the package
cyclonedx-python-lib, which does not get into the image, and the same input gives the same bytes.
"""

import argparse
import json
import re
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

JAR = re.compile(r"(.+?)-(v?\d[\w.+-]*)\.jar")
UNKNOWN = "not said"
SEE_TEXT = "see its text"


@dataclass(frozen=True, order=True)
class Package:
    """Something that is in the image.

    Attributes:
        kind: of package, as in a package URL.
        name: of the package.
        version: of the package.
        license: as the package says it; ``UNKNOWN`` if it does not.
        text: where the text of the license is; empty if it comes without one.
        namespace: what a package URL has before the name.
    """

    kind: str
    name: str
    version: str
    license: str = UNKNOWN
    text: str = ""
    namespace: str = ""

    @property
    def url(self) -> PackageURL:
        """The package URL."""
        return PackageURL(self.kind, self.namespace or None, self.name, self.version)


def python_packages(folder: Path) -> Iterator[Package]:
    """The distributions that are installed in a folder."""
    for distribution in metadata.distributions(path=[str(folder)]):
        said = distribution.metadata
        classified = [
            classifier.rpartition(" :: ")[2]
            for classifier in said.get_all("Classifier") or ()
            if classifier.startswith("License :: OSI")
        ]
        short = (said.get("License") or "").strip()
        named = said.get("License-Expression") or "; ".join(classified) or short.split("\n")[0]
        texts = [
            str(file)
            for file in distribution.files or ()
            if re.search(r"(?i)(^|/)(licen[sc]e|copying|notice)[^/]*$", str(file))
        ]
        text = f"{folder}/{texts[0]}" if texts else ""
        yield Package("pypi", said["Name"], distribution.version, named or UNKNOWN, text)


def jars(folder: Path) -> Iterator[Package]:
    """The Java packages in a folder, by their file names and what they say of themselves."""
    for file in sorted(folder.glob("*.jar")):
        match = JAR.fullmatch(file.name)
        name, version = (match[1], match[2]) if match else (file.stem, "")
        with zipfile.ZipFile(file) as jar:
            members = jar.namelist()
            group, said = _maven(jar, members, name)
            texts = [m for m in members if re.fullmatch(r"(?i)META-INF/(licen[sc]e)[^/]*", m)]
            said = said or (_manifest(jar) if "META-INF/MANIFEST.MF" in members else "")
        text = f"{file}!/{texts[0]}" if texts else ""
        yield Package("maven", name, version, said or UNKNOWN, text, group)


def _maven(jar: zipfile.ZipFile, members: list[str], name: str) -> tuple[str, str]:
    """The group of the jar itself, and the license in its pom."""
    pattern = re.compile(rf"META-INF/maven/([^/]+)/{re.escape(name)}/pom\.xml")
    for match in filter(None, map(pattern.fullmatch, members)):
        pom = jar.read(match[0]).decode(errors="replace")
        names = re.findall(r"<license>.*?<name>\s*(.*?)\s*</name>", pom, re.DOTALL)
        return match[1], "; ".join(names)
    return "", ""


def _manifest(jar: zipfile.ZipFile) -> str:
    text = jar.read("META-INF/MANIFEST.MF").decode(errors="replace").replace("\r", "")
    said = re.search(r"^Bundle-License: *(.*)", text.replace("\n ", ""), re.MULTILINE)
    return said[1].strip() if said else ""


def crates(lock: Path) -> Iterator[Package]:
    """The crates that are linked into the extension."""
    for package in tomllib.loads(lock.read_text())["package"]:
        if "source" in package:
            yield Package("cargo", package["name"], package["version"])


def debian_packages(status: Path) -> Iterator[Package]:
    """The packages that dpkg has installed."""
    for paragraph in status.read_text().split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Status): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            name, version = fields["Package"], fields["Version"]
            text = f"/usr/share/doc/{name}/copyright"
            yield Package("deb", name, version, SEE_TEXT, text, "debian")


def sbom(name: str, packages: list[Package]) -> str:
    """The bill of materials of these packages, as JSON."""
    licenses, bom = LicenseFactory(), Bom()
    bom.metadata.component = Component(name=name, type=ComponentType.CONTAINER, bom_ref=name)
    # It would differ from build to build, as the time does that is left out below.
    bom.serial_number = uuid5(NAMESPACE_URL, "\n".join(str(package.url) for package in packages))
    for package in packages:
        said = () if package.license in {UNKNOWN, SEE_TEXT} else (package.license,)
        bom.components.add(
            Component(
                name=package.name,
                group=package.namespace or None,
                version=package.version,
                type=ComponentType.LIBRARY,
                purl=package.url,
                bom_ref=str(package.url),
                licenses=[licenses.make_with_name(text) for text in said],
            )
        )
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    del document["metadata"]["timestamp"]
    return json.dumps(document, indent=2) + "\n"


def third_party(name: str, packages: list[Package]) -> str:
    """The list of licenses."""
    lines = [
        f"# What {name} contains of others",
        "",
        "Made by docker/bom.py. Texts of licenses are in the image, where this list says. Those of",
        "jars that come without one are in /opt/spark/licenses.",
        "",
        "| kind | package | version | license | text |",
        "|---|---|---|---|---|",
    ]
    for package in packages:
        full = f"{package.namespace}:{package.name}" if package.namespace else package.name
        said = package.license.replace("|", "/")
        lines.append(f"| {package.kind} | {full} | {package.version} | {said} | {package.text} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--site-packages", type=Path)
    parser.add_argument("--jars", type=Path)
    parser.add_argument("--crates", type=Path)
    parser.add_argument("--debian", type=Path)
    given = parser.parse_args()
    found = set[Package]()
    found.update(python_packages(given.site_packages) if given.site_packages else ())
    found.update(jars(given.jars) if given.jars else ())
    found.update(crates(given.crates) if given.crates else ())
    found.update(debian_packages(given.debian) if given.debian else ())
    packages = sorted(found)
    given.folder.mkdir(parents=True, exist_ok=True)
    (given.folder / "sbom.cdx.json").write_text(sbom(given.name, packages))
    (given.folder / "THIRD-PARTY.md").write_text(third_party(given.name, packages))


if __name__ == "__main__":
    main()
