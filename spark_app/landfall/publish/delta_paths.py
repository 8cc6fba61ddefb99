"""What a Delta table calls a landed file, and which folders a table may have. Pure.

A file outside of the table's folder is named by its absolute URI, which some engines cannot read.
One inside of it is named by its path relative to the folder, which all can. But VACUUM deletes what
is in the folder and not in the table: objects that are yet to be published, that were left out, or
that others have compacted. It passes over folders whose names begin with ``_``, so landed objects
may be in the table's folder below such a folder only (ADR 0049).
"""

import posixpath
import re

HIDDEN = re.compile(r"_(?!delta_|change_data)[A-Za-z0-9_.-]+")
"""Names of folders that VACUUM passes over. Those that it does not, begin in the same way: Delta's
own, and the folders of partition columns, which have ``=`` in their names.
"""
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


class InTheWayOfVacuum(Exception):  # noqa: N818  # the name is the state
    """Landed objects are in the folder of a table, and VACUUM would delete them."""


def path_in_table(table: str, url: str) -> str:
    """The path by which a table names a file.

    Raises:
        InTheWayOfVacuum: the file is in the table's folder, and in no folder with ``_`` below it.
    """
    inside = below(table, url)
    if inside is None:
        return url
    first, _, rest = inside.partition("/")
    if not rest or not HIDDEN.fullmatch(first):
        raise InTheWayOfVacuum(
            f"{url} is in the folder of table {table}, where VACUUM deletes it unless its first "
            "folder there begins with _, such as _landed"
        )
    return inside


def absolute(table: str, path: str) -> str:
    """The URI of a file that a table names by this path."""
    return path if _ABSOLUTE.match(path) else f"{table.rstrip('/')}/{path}"


def below(folder: str, url: str) -> str | None:
    """What of a URL is below a folder; None if it is not in it."""
    above, inside = f"{_normal(folder)}/", _normal(url)
    return inside.removeprefix(above) if inside.startswith(above) else None


def _normal(url: str) -> str:
    """A URL without its last slash, and without what is spelled differently: ``s3a``, ``//``."""
    scheme, has_scheme, rest = url.partition("://")
    if not has_scheme:
        scheme, rest = "file", url.removeprefix("file:")
    if scheme == "file":
        return f"file:/{posixpath.normpath(rest).lstrip('/')}"
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}://{rest.rstrip('/')}"
