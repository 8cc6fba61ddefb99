"""Refuses Python code that an Iceberg catalog or a table names.

pyiceberg imports, and calls, what some properties name. A REST catalog sends properties in its
configuration and with each table, and whoever may change a table sets properties of it. So they
could run programs where the publisher runs, with its credentials: ``subprocess.Popen`` is such a
name. Only what the group's own spec names is imported, and pyiceberg's own classes.

====================================  ==========================================================
property                              where pyiceberg imports what it names
====================================  ==========================================================
``py-io-impl``                        ``io/__init__.py``: reads and writes files
``s3.retry-strategy-impl``            ``io/pyarrow.py``: when requests to S3 are tried again
``write.py-location-provider.impl``   ``table/locations.py``: where new files are
``auth``                              ``catalog/rest/auth.py``: how requests are signed
====================================  ==========================================================
"""

from collections.abc import Mapping
from typing import Any

from landfall.errors import Reason, Stalled

NAMES_OF_CODE = (
    "py-io-impl",
    "s3.retry-strategy-impl",
    "write.py-location-provider.impl",
    "auth",
)
_OF_PYICEBERG = {"pyiceberg.io.pyarrow.PyArrowFileIO", "pyiceberg.io.fsspec.FsspecFileIO"}
"""Classes that any catalog may choose among."""


def check_code(found: Mapping[str, Any], own: Mapping[str, str], owner: str) -> None:
    """Return if properties name no code, except what the group's spec names as well.

    Args:
        found: properties that were read from a catalog.
        own: properties that the spec of the group has.
        owner: whose properties they are, for the message.

    Raises:
        Stalled: DESTINATION_CONFLICT, with the name of the property.
    """
    for name in NAMES_OF_CODE:
        value = found.get(name)
        if not value or value == own.get(name) or str(value) in _OF_PYICEBERG:
            continue
        raise Stalled(
            Reason.DESTINATION_CONFLICT,
            f"property {name} of {owner} names Python code, {str(value)[:200]!r}, which is not "
            "imported; remove it there, or set it to the same text in options.catalog",
        )


def refuse_code(catalog: Any, own: Mapping[str, str]) -> None:
    """Let a ``pyiceberg.catalog.Catalog`` load no table that names code.

    It makes the ``FileIO`` of each table when it has read its metadata, before anything else.

    Args:
        catalog: gets another way to do so.
        own: properties that the spec of the group has.
    """
    load = catalog._load_file_io  # noqa: SLF001  # the one place for all kinds of catalogs

    def load_file_io(properties: Any = None, location: str | None = None) -> Any:
        named = properties or {}
        check_code({**catalog.properties, **named}, own, f"the table at {location}")
        return load(named, location)

    catalog._load_file_io = load_file_io  # noqa: SLF001
