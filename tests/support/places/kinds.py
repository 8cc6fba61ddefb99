"""The kinds of stores other than S3 and folders, by the name of the fixture of their server."""

from collections.abc import Callable, Mapping

from tests.support.places import Place, azure, gcs, hdfs

KINDS: Mapping[str, Callable[[str], Place]] = {
    "azure": azure.place,
    "gcs": gcs.place,
    "hdfs": hdfs.place,
}
"""How each server gets an empty output root, given its address."""
SECRETS: Mapping[str, Mapping[str, str]] = {**azure.SECRETS}
"""The files of all Secrets that those roots refer to."""
