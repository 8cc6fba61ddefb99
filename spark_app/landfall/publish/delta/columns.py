"""The columns of a Delta table that landed files fit into. Pure.

A column of a file may be narrower than the table's, as readers widen it; then the table stays. One
that is wider widens the table's, and the earlier files are the narrower ones. Names are compared
without case, as Delta does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from deltalake import Field, Schema

from landfall.api.column_names import is_reserved
from landfall.publish.delta.files import DeltaFile

_WIDTHS: Sequence[Sequence[str]] = (("byte", "short", "integer", "long"), ("float", "double"))
"""Types of numbers that hold all values of those before them."""


class DoesNotFit(Exception):  # noqa: N818  # the name is the state
    """A file does not fit a table, or another file."""


@dataclass(frozen=True)
class DeltaColumns:
    """The columns that a table needs for files.

    Attributes:
        fields: all columns: the table's, then new ones.
        added: those that the table does not have.
        widened: names of columns whose type changes.
    """

    fields: tuple[Field, ...]
    added: tuple[Field, ...] = ()
    widened: tuple[str, ...] = ()


@dataclass
class _MergedColumns:
    """A table's columns, into which the columns of its files are merged."""

    table: str
    fields: dict[str, Field]
    replaces_rows: bool
    evolves: bool
    added: dict[str, None] = field(default_factory=dict)
    widened: dict[str, None] = field(default_factory=dict)
    of_files: set[str] = field(default_factory=set)

    def add(self, file: DeltaFile) -> None:
        """Make room for the columns of a file."""
        self._check_names(file)
        new = Schema.from_arrow(file.columns).fields
        if not self.evolves and (left := [n.name for n in new if _folded(n) not in self.fields]):
            raise self._refusal(
                file,
                f"it has columns {', '.join(left)}; add them to the table, or set "
                "schemaEvolution: Add",
            )
        for column in new:
            self._add_column(file, column)
        self.of_files |= {_folded(column) for column in new}

    def _check_names(self, file: DeltaFile) -> None:
        names = {folded: column.name for folded, column in self.fields.items()}
        for name in file.columns.names:
            if (other := names.setdefault(name.casefold(), name)) != name:
                raise self._refusal(
                    file,
                    f"its column {name} differs from column {other} by case only, and a Delta "
                    "table has one of them; rename it in the group",
                )
            if name.casefold() not in self.fields and is_reserved("Delta", name):
                raise self._refusal(
                    file,
                    f"its column {name} has a name that Delta Lake or Spark reserves; rename it in "
                    "the group, and leave out by `skip` what has landed with it",
                )

    def _add_column(self, file: DeltaFile, new: Field) -> None:
        before = self.fields.get(_folded(new))
        if before is None:
            self.fields[_folded(new)] = Field(new.name, new.type, metadata=new.metadata)
            self.added[_folded(new)] = None
        elif not _holds(before, new):
            is_free = self.replaces_rows and _folded(new) not in self.of_files
            if not self.evolves or not (is_free or _holds(new, before)):
                raise self._refusal(
                    file,
                    f"column {new.name} is {_text(new)} in the file and {_text(before)} in the "
                    "table",
                )
            self.fields[_folded(new)] = Field(before.name, new.type, metadata=before.metadata)
            self.widened[_folded(new)] = None

    def _refusal(self, file: DeltaFile, why: str) -> DoesNotFit:
        return DoesNotFit(f"object {file.url} does not fit table {self.table}: {why}")


def columns_for(
    table: str,
    known: Iterable[Field],
    files: Iterable[DeltaFile],
    *,
    replaces_rows: bool = False,
    evolves: bool = True,
) -> DeltaColumns:
    """The columns of a table with these files.

    Args:
        table: its name, for messages.
        known: its columns now.
        files: that enter it.
        replaces_rows: whether all its files are removed, so that the new files need to fit each
            other, and not its columns.
        evolves: whether columns may be added and widened.

    Raises:
        DoesNotFit: with the names of file and column.
    """
    merging = _MergedColumns(
        table, {_folded(known_field): known_field for known_field in known}, replaces_rows, evolves
    )
    for file in {file.columns.to_string(): file for file in reversed([*files])}.values():
        merging.add(file)
    fields = merging.fields
    return DeltaColumns(
        tuple(fields.values()),
        tuple(fields[name] for name in merging.added),
        tuple(fields[name].name for name in merging.widened if name not in merging.added),
    )


def _folded(column: Field) -> str:
    return column.name.casefold()


def _holds(one: Field, other: Field) -> bool:
    """Return whether a column can hold all values of another one."""
    wide, narrow = _text(one), _text(other)
    return one.type == other.type or any(
        wide in widths and narrow in widths and widths.index(narrow) < widths.index(wide)
        for widths in _WIDTHS
    )


def _text(column: Field) -> str:
    """The name of a column's type."""
    kind = column.type
    return str(kind.to_json()).strip('"') if hasattr(kind, "to_json") else str(kind)
