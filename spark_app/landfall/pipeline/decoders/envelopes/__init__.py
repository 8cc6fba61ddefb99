"""Envelopes around rows, opened before the decoder of rows: what it sees is the row.

``decode.envelope`` puts this around the group's decoder, in three steps that each of the decoders
with JSON shares:

1. The decoder makes a JSON object of the payload, with common values (``common_values``), so that
   a time is one from every format. ``Json`` payloads are JSON already. If they have a schema, as
   with ``schemas.enable`` of Kafka Connect, what is in ``payload`` counts.
2. An ``Opener`` makes a row of the object, skips it, or finds it bad: ``debezium``, ``flattened``
   and ``by_fields`` have the rules of their producers.
3. ``Json`` reads fields and typed columns of the row, and the row is landed as JSON.

Skipped records count as filtered. A row has more members, those that its envelope gives:

================  =================================================================================
``_op``           the letter of the change: c inserted, r read by a snapshot, u updated, d deleted
``_deleted``      whether the change is a deletion
``_source_ts``    when the database made it, milliseconds since 1970 UTC
``_source``       what else the envelope has: position in the database's log, table, transaction
``_unavailable``  the names of values that the database did not log, because the change left them
                  alone (TOAST); they are absent from the row. Absent if there are none
``_patch``        how an update of MongoDB changed a document that it does not have; the row has
                  ``_id`` alone. Absent if there is the whole document
================  =================================================================================
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from landfall.api.spec.decode import Decode, Envelope
from landfall.pipeline.decoders import Decoded, Decoder, Path, Wanted
from landfall.pipeline.decoders.envelopes import by_fields, mongodb
from landfall.pipeline.decoders.envelopes.debezium import Debezium
from landfall.pipeline.decoders.envelopes.flattened import Flattened
from landfall.pipeline.decoders.envelopes.opened import (
    OWN_NAMES,
    UNREADABLE,
    Bad,
    KeyRule,
    OpenedEnvelope,
    Opener,
    Skipped,
    completed,
    reason,
    together,
)
from landfall.pipeline.decoders.envelopes.schemas import ConnectTypes
from landfall.pipeline.decoders.half_pairs import without_half_pairs
from landfall.pipeline.decoders.json import JsonDecoder
from landfall.pipeline.decoders.row_schemas import SCHEMA_ID, SCHEMA_NAME
from landfall.pipeline.decoders.typed_columns import TypedColumn, typed_columns
from landfall.pipeline.pinned import PinnedFile, pinned_files
from landfall.pipeline.records import Records


@dataclass(frozen=True)
class Envelopes:
    """Decodes rows in envelopes.

    Attributes:
        payloads: makes JSON of payloads; None if they are JSON.
        keys: makes JSON of keys; None if the group does not decode them.
        opener: makes rows of JSON.
        rows: decodes rows.
    """

    payloads: Decoder | None
    keys: Decoder | None
    opener: Opener
    rows: JsonDecoder
    of_schemas: ClassVar[tuple[Path, ...]] = (SCHEMA_ID, SCHEMA_NAME)

    @classmethod
    def of(
        cls, payloads: Decoder | None, keys: Decoder | None, decode: Decode, wanted: Wanted
    ) -> "Envelopes":
        """Build the decoder of what is wanted of rows.

        Args:
            payloads: as of the class.
            keys: as of the class.
            decode: which envelope it is.
            wanted: what is wanted of rows.

        Raises:
            ValueError: a column reads what rows of the envelope do not have.
        """
        paths = tuple(path for path in wanted.fields if path not in cls.of_schemas)
        typed = typed_columns(wanted.schema) if wanted.schema is not None else ()
        rows = JsonDecoder.of({}, replace(wanted, fields=paths))
        return cls(payloads, keys, _opener(decode, typed, has_keys=keys is not None), rows)

    @classmethod
    def of_payloads(cls, wanted: Wanted) -> Wanted:
        """Return what is wanted of the decoder that makes JSON of payloads."""
        paths = tuple(path for path in wanted.fields if path in cls.of_schemas)
        return Wanted(paths, json=True, zeros=True, read_file=wanted.read_file)

    @property
    def files(self) -> tuple[PinnedFile, ...]:
        """The files that the decoder of payloads has read."""
        return pinned_files([self.payloads])

    def decode(self, records: Records) -> Decoded:
        """Return every change of a row, as the row.

        Raises:
            Retry: what a decoder needs is away.
        """
        decoded = Decoded(records) if self.payloads is None else self.payloads.decode(records)
        rows: list[bytes | None] = []
        errors: dict[int, str] = {}
        is_kept = np.ones(len(decoded.records), np.bool_)
        of_keys: dict[int, OpenedEnvelope] = {}
        for row, payload in enumerate(decoded.records.values.to_pylist()):
            document = None
            try:
                opened = self._opened(payload)
                document = opened.row
                if opened.of_key is KeyRule.NOTHING:
                    document = together(document, opened.meta)
                else:
                    of_keys[row] = opened
            except Skipped:
                is_kept[row] = False
                continue
            except Bad as error:
                errors[row] = f"{self.opener.name}: {error}"
                document = None
            rows.append(document)
        # From here on rows are those that are kept.
        now = np.cumsum(is_kept) - 1
        errors = {int(now[row]): error for row, error in errors.items()}
        decoded = decoded.keep(is_kept)
        if of_keys:
            self._with_keys(
                decoded.records, {int(now[row]): of for row, of in of_keys.items()}, rows, errors
            )
        bodies = pa.array(rows, pa.binary())
        landed = replace(decoded, records=decoded.records.with_values(bodies))
        return self.rows.decode_bodies(landed, bodies, errors)

    def _opened(self, payload: bytes | None) -> OpenedEnvelope:
        """Return the row of a payload.

        Raises:
            Skipped: the payload is no change of a row.
            Bad: it is none that there is a rule for.
        """
        if payload is None:
            return self.opener.tombstone()
        try:
            return self.opener.read(payload)
        except UNREADABLE as error:
            mended = without_half_pairs(payload)
            if mended == payload:
                raise Bad(reason(error)) from error
        try:
            return self.opener.read(mended)
        except UNREADABLE as error:
            raise Bad(reason(error)) from error

    def _with_keys(
        self,
        records: Records,
        opened: Mapping[int, OpenedEnvelope],
        rows: list[bytes | None],
        errors: dict[int, str],
    ) -> None:
        """Give rows what only the keys of their records have.

        Args:
            records: the kept records.
            opened: rows that take something of their keys, by their position.
            rows: the row of each record, which is replaced.
            errors: what is wrong, by row; errors of keys are added.
        """
        assert self.keys is not None
        taken = records.take(np.array(list(opened), np.int64))
        found = self.keys.decode(taken.with_values(taken.keys))
        wrong = dict(zip(found.bad.rows.tolist(), found.bad.errors, strict=True))
        kept = range(len(opened)) if found.positions is None else found.positions.tolist()
        keys = dict(zip(kept, found.records.values.to_pylist(), strict=True))
        for i, (row, of) in enumerate(opened.items()):
            rows[row] = None
            if i in wrong:
                errors[row] = f"{self.opener.name}: key: {wrong[i]}"
                continue
            try:
                rows[row] = together(_with_key(of, keys[i]), of.meta)
            except (Bad, *UNREADABLE) as error:
                errors[row] = f"{self.opener.name}: key: {error}"


def _with_key(opened: OpenedEnvelope, key: bytes | None) -> bytes:
    """Return a row with what its rule takes of the key of its record.

    Raises:
        Bad: the row has nothing else, and there is no such key.
    """
    if key is None:
        if opened.row == b"{}":
            raise Bad("the row is read of the key, and there is none")
        return opened.row
    if opened.of_key is KeyRule.DOCUMENT:
        return completed(opened.row, mongodb.of_key(key))
    return completed(opened.row, key)


def _opener(decode: Decode, columns: Sequence[TypedColumn], *, has_keys: bool) -> Opener:
    """Return what opens the envelopes that a group names. Raises ValueError as ``Envelopes.of``."""
    names = frozenset(column.path[0] for column in columns)
    openers: Mapping[Envelope, Callable[[], Opener]] = {
        Envelope.DEBEZIUM: lambda: Debezium(names, ConnectTypes.of(columns), has_keys),
        Envelope.DEBEZIUM_FLATTENED: lambda: Flattened(names, ConnectTypes.of(columns), has_keys),
        Envelope.MAXWELL: by_fields.maxwell,
        Envelope.CANAL: lambda: by_fields.canal(columns),
        Envelope.FIELDS: lambda: by_fields.of_spec(decode.envelope_fields, has_keys=has_keys),
    }
    assert decode.envelope is not None, "only groups with an envelope have this decoder"
    return openers[decode.envelope]()


__all__ = ("OWN_NAMES", "Envelopes")
