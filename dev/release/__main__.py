"""Builds a release into a folder: ``python -m dev.release``."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from dev.release import bill, changelog, chart, image_archives, page, sums, versions, wheels
from dev.release.image_archives import Archive
from dev.release.sources import ROOT, CommitSources, export
from dev.servers.cache import MissingTool

PARTS = {
    "images": "images of the release are built elsewhere; the chart asks for them by tag",
    "arm64": "there is no wheel of the extension for arm64; pure Python runs there",
    "native": "there is no wheel of the extension; pure Python runs",
    "bill": "there is no bill of materials of what the wheels need",
}
"""What can be left out, and what that means for users."""
ARM64_IMAGES = "images are built for the architecture of the machine that builds them"


def build(repository: Path, folder: Path, key: Path | None, without: Mapping[str, str]) -> None:
    """Build a release of the last commit of a working copy into a new folder.

    Args:
        repository: the working copy.
        folder: it is replaced once the release is complete.
        key: the private key that signs; None: the release is not signed.
        without: parts that are left out, and what the release then lacks.

    Raises:
        MissingTool: a tool is missing, a step failed, or the working copy has changes.
        ValueError: the key cannot be used, or versions differ.
    """
    private = sums.key(key) if key else None
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".release-", dir=folder.parent) as scratch:
        sources = export(Path(scratch, "sources"), repository)
        if wrong := versions.differing(sources.root):
            raise ValueError(f"the version is {sources.version}, but: {', '.join(wrong)}")
        made = Path(scratch, "release")
        made.mkdir()
        archives = _artefacts(sources, made, without)
        if private:
            (made / sums.PUBLIC_KEY).write_bytes(sums.public_pem(private))
        facts = page.Facts(
            version=sources.version,
            commit=sources.commit,
            compiler="" if "native" in without else wheels.compiler(),
            digests={archive.target: archive.digest for archive in archives},
            signed=private is not None,
            left_out={**without, "images for other architectures": ARM64_IMAGES},
        )
        text = page.text(facts, [file.name for file in made.iterdir()])
        (made / "README.md").write_text(text)
        listed = sums.write(made)
        if private:
            sums.sign(listed, private)
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)


def _artefacts(sources: CommitSources, made: Path, without: Mapping[str, str]) -> list[Archive]:
    architectures = [] if "native" in without else [*wheels.ARCHITECTURES]
    if "arm64" in without and architectures:
        architectures.remove("aarch64")
    with _step("wheels"):
        wheels.build_python(sources, made)
        if architectures:
            wheels.build_extension(sources, made, architectures)
    archives: list[Archive] = []
    if "images" not in without:
        with _step("images"):
            archives = image_archives.build(sources, made)
    with _step("chart"):
        chart.package(sources, made, {archive.target: archive.digest for archive in archives})
    if "bill" not in without:
        with _step("bill of materials"):
            bill.write(sources, made)
    for pattern in ("crds/*.landfall.dev.yaml", "spark_app/landfall/api/schemas/*.schema.json"):
        for file in sources.root.glob(pattern):
            shutil.copyfile(file, made / file.name)
    text = (sources.root / "CHANGELOG.md").read_text()
    (made / "CHANGES.md").write_text(changelog.of_release(text, sources.version))
    return archives


@contextmanager
def _step(name: str) -> Iterator[None]:
    began = monotonic()
    yield
    print(f"{name} built in {monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def main() -> None:
    """Build a release, and print where it is and whether it is signed."""
    parser = argparse.ArgumentParser(prog="python -m dev.release", description=__doc__)
    parser.add_argument("--to", type=Path, default=ROOT / "dist/release", help="the folder")
    parser.add_argument("--key", type=Path, help="private key of Ed25519 (PEM), which signs")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        choices=PARTS,
        help="leave a part out, which README.md of the release then reports",
    )
    given = parser.parse_args()
    try:
        without = {part: PARTS[part] for part in given.without}
        build(ROOT, given.to, given.key, without)
    except (MissingTool, ValueError, OSError) as error:
        sys.exit(f"no release was built: {error}")
    files = sorted(given.to.iterdir())
    print("\n".join(f"{file.stat().st_size:>12,}  {file.name}" for file in files))
    print("signed" if given.key else "not signed: no --key was given")


if __name__ == "__main__":
    main()
