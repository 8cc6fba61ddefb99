"""Names of fields and columns in options, and where their values are.

A name is a path whose steps are separated by dots. In a group with typed columns it means the
column of that name if there is one, else the payload's field at that path.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pyarrow as pa

from landfall.api.words import did_you_mean
from landfall.pipeline.decoders import Decoded, Path


def path_of(name: str) -> Path:
    """Return the path of a name; raises ValueError if a step is empty."""
    path = tuple(name.split("."))
    if not all(path):
        raise ValueError(f"field {name!r} has an empty step")
    return path


def paths_of(option: str, names: Iterable[str]) -> tuple[Path, ...]:
    """Return the paths of an option that lists names.

    Raises:
        ValueError: there is none, one occurs twice, or one has an empty step.
    """
    listed = tuple(names)
    if not listed:
        raise ValueError(f"option {option}: names no field")
    if len(set(listed)) < len(listed):
        raise ValueError(f"option {option}: a field occurs twice in {', '.join(listed)}")
    try:
        return tuple(path_of(name) for name in listed)
    except ValueError as error:
        raise ValueError(f"option {option}: {error}") from error


def column_of(batch: pa.RecordBatch, path: Path) -> pa.Array:
    """Return the typed column of this name; raises ValueError if there is none."""
    name, names = ".".join(path), batch.schema.names
    if name not in names:
        hint = did_you_mean(name, names)
        raise ValueError(f"no column {name!r}{hint}; the columns are {', '.join(names)}")
    return batch.column(name)


def with_columns(decoded: Decoded, columns: Mapping[str, pa.Array]) -> Decoded:
    """Return the rows with exactly these typed columns."""
    batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    return replace(decoded, columns=batch)


def columns_by_name(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the typed columns by name, in order."""
    return dict(zip(batch.schema.names, batch.columns, strict=True))
