"""Lists of landed objects, for engines that know neither Landfall nor its ledger.

A **symlink manifest** is a file of URLs for each output partition. Hive's SymlinkTextInputFormat,
Presto, Trino, Athena and Redshift Spectrum read a table from it as if the objects were in its
folders. The layout is Delta Lake's ("Presto, Trino, and Athena to Delta Lake integration
using manifests")::

    <topic>/_symlink_format_manifest/<output partition>/manifest
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from landfall.ledger.names.object_names import ObjectName
from landfall.reading.scans import Scan
from landfall.store import Store

FOLDER = "_symlink_format_manifest"
"""The folder of a topic's symlink manifests; engines take no folder for data that begins so."""
_MANIFEST = "manifest"


def urls(scan: Scan, scheme: str = "") -> Iterator[str]:
    """The URLs of a scan's objects, with another scheme if one is given, such as ``s3a``."""
    for url in scan.urls():
        yield f"{scheme}://{url.partition('://')[2]}" if scheme else url


def described(scan: Scan, scheme: str = "") -> Mapping[str, object]:
    """A scan as one document: topic, slot, and each object with its URL, rows and bytes."""
    return {
        "topic": scan.topic,
        "slot": scan.slot,
        "rows": scan.rows,
        "files": [
            {
                "url": url,
                "rows": file.rows,
                "bytes": file.size,
                "slot": file.slot,
                "partition": file.partition_values,
            }
            for file, url in zip(scan.files(), urls(scan, scheme), strict=True)
        ],
    }


def symlinks(scan: Scan, scheme: str = "") -> dict[str, bytes]:
    """The symlink manifests of a scan, by key below the output root."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for file, url in zip(scan.files(), urls(scan, scheme), strict=True):
        found[_key(file.name)].append(url)
    return {key: "".join(f"{url}\n" for url in lines).encode() for key, lines in found.items()}


def write_symlinks(scan: Scan, store: Store, scheme: str = "", *, whole: bool) -> int:
    """Write the symlink manifests of a scan into the output root; returns how many.

    Each is replaced at once, but a reader may see some that are new and some that are old. With
    ``whole`` the scan is all of the topic, and manifests of other output partitions, which a scan
    of a later slot has left, become empty. Nothing is deleted.

    Raises:
        Retry: the store does not answer; some may be written, and again is safe.
    """
    wanted = symlinks(scan, scheme)
    if whole:
        for folder in {key.partition(f"/{FOLDER}/")[0] for key in wanted} | {scan.topic}:
            for stat in store.list_after(f"{folder}/{FOLDER}/"):
                if stat.key.endswith(f"/{_MANIFEST}") and stat.size:
                    wanted.setdefault(stat.key, b"")
    for key, body in wanted.items():
        store.overwrite(key, body)
    return len(wanted)


def _key(name: ObjectName) -> str:
    folder = f"{name.destination}/{name.topic}".removeprefix("/")
    return f"{folder}/{FOLDER}/{name.output_partition}/{_MANIFEST}"
