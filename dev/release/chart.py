"""The chart of a release as one file, with the digests of the images that belong to it."""

import gzip
import io
import re
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from dev.kube import programs
from dev.release.sources import CommitSources
from dev.servers import cache

CHART = "charts/landfall"


def package(sources: CommitSources, folder: Path, digests: Mapping[str, str]) -> Path:
    """Write the chart to a folder; returns the file.

    Args:
        sources: of the release.
        folder: it gets the file ``landfall-VERSION.tgz``.
        digests: of the images' manifests, ``sha256:…`` by target (``operator``, ``spark``). The
            chart asks for exactly these images, and by tag for those that are not among them.

    Raises:
        MissingTool: Helm is missing, or it refuses the chart.
        ValueError: the chart's values have no place for a digest.
    """
    values = sources.root / CHART / "values.yaml"
    values.write_text(with_digests(values.read_text(), digests))
    helm = str(programs.helm() / "helm")
    with tempfile.TemporaryDirectory(prefix="landfall-") as made:
        cache.run([helm, "package", str(sources.root / CHART), "--destination", made])
        (packaged,) = Path(made).iterdir()
        file = folder / packaged.name
        file.write_bytes(dated(packaged.read_bytes(), sources.epoch))
    return file


def with_digests(values: str, digests: Mapping[str, str]) -> str:
    """The text of values with digests of images; comments and order are kept.

    Raises:
        ValueError: an image has no digest in these values, or more than one.
    """
    for target, digest in digests.items():
        pattern = rf'(^  {target}:.*\n(?:    .*\n)*?    digest: )""(?: *( #.*))?$'
        values, count = re.subn(pattern, rf'\g<1>"{digest}"\g<2>', values, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"image.{target}.digest is {count} times in the values of the chart")
    return values


def dated(archive: bytes, epoch: int) -> bytes:
    """A ``.tar.gz`` with the same files, all of one time: Helm writes the time of the packaging."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as old,
        gzip.GzipFile("", "wb", 9, packed, mtime=epoch) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as new,
    ):
        for member in old:
            entry = tarfile.TarInfo(member.name)
            entry.size, entry.mode, entry.mtime = member.size, member.mode, epoch
            new.addfile(entry, old.extractfile(member))
    return packed.getvalue()
