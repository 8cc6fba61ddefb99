"""A step that is a function of the user's: Arrow batch in, Arrow batch out.

The batch holds the typed columns, or, in a group without them, the column ``value`` with the JSON
payload; and ``_row``, the number of each row. What the function returns is a batch of the same
kind:

- A row whose number is not in it is left out on purpose.
- A row with text in the column ``_error``, which the function may add, is rejected with this text.
- Rows keep their order. Their numbers show it: rows that were moved, repeated or made are an error
  of the function, and fail the slice.

With typed columns the function may add, drop and retype columns, always to the same schema: it is
applied to no rows when the group is built, which shows the schema, and a batch with another schema
is an error. In JSON form a payload that is no object any more is rejected.

A route reads what the function returned, from the columns or from the payload. The event time stays
the one of the original payload.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from landfall.pipeline.decoders import Decoded, Path
from landfall.pipeline.records import FieldValues, Int64s
from landfall.pipeline.transforms import TransformContext
from landfall.pipeline.transforms.documents import find, python_values, read_documents

ROW = "_row"
"""The column with the number of the row."""
ERROR = "_error"
"""The column with the reason why a row is rejected; null for rows that are not."""
VALUE = "value"
"""The column with the payload, in a group without typed columns."""
_MAX_MESSAGE = 300

Function = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True)
class BatchFunction:
    """Applies a function to the rows of a chunk.

    Attributes:
        name: the function's name, for messages.
        function: the function, with its options.
        schema: of the typed columns that it returns; None in JSON form.
        event_time: the path of the field whose value stays as in the payload, if there is one.
        writes: the names of columns that later stages read from it.
        fields: paths that it reads of the payload: none, for it gets columns or the whole payload.
        rewrites: that it changes rows, and does not only decide about them.
    """

    name: str
    function: Function
    schema: pa.Schema | None
    event_time: Path | None
    writes: tuple[Path, ...] = ()
    fields: tuple[Path, ...] = ()
    rewrites: bool = True

    @classmethod
    def of(
        cls,
        function: Callable[..., pa.RecordBatch],
        options: Mapping[str, object],
        context: TransformContext,
    ) -> "BatchFunction":
        """Build the step; the options are the function's keyword arguments.

        Raises:
            ValueError: the function does not take the options, fails for no rows, or returns
                something else than rows.
        """
        try:
            inspect.signature(function).bind(None, **options)
        except TypeError as error:
            raise ValueError(f"options: {error}") from error
        name = getattr(function, "__name__", "the function")
        event_time = context.timestamp.path if context.timestamp else None
        step = cls(name, partial(function, **options), None, event_time)
        before = pa.schema([(VALUE, pa.binary())]) if context.schema is None else context.schema
        if {ROW, ERROR} & set(before.names):
            raise ValueError(f"no column can be called {ROW} or {ERROR} here")
        none = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in before], schema=before)
        try:
            columns = step._result(none).columns
        except Exception as error:
            raise ValueError(
                f"{name} fails for no rows: {type(error).__name__}: {error}"
            ) from error
        untyped = [field.name for field in columns.schema if pa.types.is_null(field.type)]
        if untyped:
            raise ValueError(f"{name}: column {untyped[0]} has no type; give pa.array a type")
        if context.schema is None:
            if columns.schema != before:
                raise ValueError(
                    f"{name} must return the column {VALUE}, of the type binary, alone"
                )
            return step
        paths = (tuple(column.split(".")) for column in columns.schema.names)
        writes = tuple(path for path in paths if path != event_time)
        return replace(step, schema=columns.schema, writes=writes)

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows that the function returned, as it returned them.

        Raises:
            TypeError: the function returned something else than rows of the batch, or another
                schema.
        """
        if not len(decoded.records):
            return decoded if self.schema is None else replace(decoded, columns=_none(self.schema))
        batch = decoded.columns
        if self.schema is None:
            batch = pa.RecordBatch.from_arrays([decoded.records.values], [VALUE])
        assert batch is not None, "built for typed columns"
        result = self._result(batch)
        wanted = batch.schema if self.schema is None else self.schema
        if not result.columns.schema.equals(wanted):
            raise TypeError(
                f"{self.name} returned other columns than for no rows: {result.columns.schema}"
            )
        is_kept = np.zeros(len(batch), np.bool_)
        is_kept[result.rows] = True
        rejected = np.array(sorted(result.errors), np.int64)
        decoded = decoded.reject(result.errors).keep(np.delete(is_kept, rejected))
        returned = result.columns.take(pa.array(np.flatnonzero(~np.isin(result.rows, rejected))))
        if self.schema is not None:
            return replace(decoded, columns=returned)
        return self._with_payloads(decoded, returned.column(VALUE))

    def _result(self, batch: pa.RecordBatch) -> "_Result":
        """Return the function's result for these columns; raises TypeError if it is no rows."""
        numbers = pa.array(np.arange(len(batch)))
        found = self.function(
            pa.RecordBatch.from_arrays([*batch.columns, numbers], [*batch.schema.names, ROW])
        )
        if not isinstance(found, pa.RecordBatch):
            raise TypeError(f"{self.name} returned {type(found).__name__} and no RecordBatch")
        names = found.schema.names
        if names.count(ROW) != 1 or len(set(names)) < len(names):
            raise TypeError(f"{self.name} returned the columns {', '.join(names)}; one is {ROW}")
        rows = found.column(ROW)
        if not rows.type.equals(pa.int64()) or rows.null_count:
            raise TypeError(f"{self.name} changed the column {ROW}")
        order: Int64s = rows.to_numpy()
        if len(order) and (order[0] < 0 or order[-1] >= len(batch) or (np.diff(order) <= 0).any()):
            raise TypeError(f"{self.name} moved, repeated or made rows")
        columns = found.drop_columns([name for name in (ROW, ERROR) if name in names])
        messages = found.column(ERROR).to_pylist() if ERROR in names else []
        errors = {
            int(row): f"{self.name}: {message}"[:_MAX_MESSAGE]
            for row, message in zip(order.tolist(), messages, strict=bool(messages))
            if message is not None
        }
        return _Result(columns, order, errors)

    def _with_payloads(self, decoded: Decoded, values: pa.BinaryArray) -> Decoded:
        """The rows with other payloads, and the fields as they are in these."""
        changed = replace(decoded, records=decoded.records.with_values(values))
        changed, documents = read_documents(changed)
        fields: dict[Path, FieldValues] = dict(changed.fields)
        errors: dict[int, str] = {}
        for path in (path for path in fields if path != self.event_time):
            fields[path], unreadable = python_values(
                [None if document is None else find(document, path) for document in documents],
                path,
            )
            errors = unreadable | errors
        return replace(changed, fields=fields).reject(errors)


@dataclass(frozen=True)
class _Result:
    """The result of a function: its columns, the rows they belong to, and errors by row."""

    columns: pa.RecordBatch
    rows: Int64s
    errors: Mapping[int, str]


def _none(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
