"""Step ``LogId``: gives each record an id that is the same on every reading.

| option | default | meaning |
|---|---|---|
| ``name`` | ``log_id`` | the field or column that gets it |
| ``from`` | ``Offset`` | ``Offset``: topic, partition and offset, ``clicks-3-1042``; |
| | | ``Key``: the record key, as 32 hexadecimal digits of its SHA-256 |

Records of one key have one id. A record without a key is rejected if the id is made of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.decoders import Decoded, Path
from landfall.pipeline.decoders.options import read_options
from landfall.pipeline.records import Records
from landfall.pipeline.transforms import TransformContext
from landfall.pipeline.transforms.documents import put, raw_of, read_documents, with_documents
from landfall.pipeline.transforms.names import columns_by_name, path_of, with_columns

_HASH_DIGITS = 32


class IdSource(StrEnum):
    """The source of an id."""

    OFFSET = "Offset"
    KEY = "Key"


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """Options of ``LogId``."""

    name: str = "log_id"
    origin: IdSource = msgspec.field(default=IdSource.OFFSET, name="from")


@dataclass(frozen=True)
class LogId:
    """Gives each record a stable id.

    Attributes:
        origin: what the id is made of.
        writes: the name it gets.
    """

    origin: IdSource
    writes: tuple[Path, ...]
    fields: tuple[Path, ...] = ()
    rewrites: bool = True

    @classmethod
    def of(cls, options: Mapping[str, object], context: TransformContext) -> "LogId":
        """Build the step; ValueError names a wrong option."""
        del context  # a name is a path or a column, as there is one
        read = read_options(options, Options)
        return cls(read.origin, (path_of(read.name),))

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows with their ids; reject those without what the id is made of."""
        if self.origin is IdSource.KEY:
            keyless = np.flatnonzero(decoded.records.keys.is_null()).tolist()
            decoded = decoded.reject(dict.fromkeys(keyless, "log id: the record has no key"))
        path = self.writes[0]
        if decoded.columns is not None:
            columns = columns_by_name(decoded.columns)
            return with_columns(decoded, {**columns, ".".join(path): self._ids(decoded.records)})
        decoded, documents = read_documents(decoded)
        errors: dict[int, str] = {}
        for row, text in enumerate(self._ids(decoded.records).to_pylist()):
            document = documents[row]
            if document is not None and not put(document, path, raw_of(text)):
                errors[row] = f"log id: what is above {'.'.join(path)} is no object"
        return with_documents(decoded, documents, self.writes, errors)

    def _ids(self, records: Records) -> pa.StringArray:
        if self.origin is IdSource.OFFSET:
            tp, offsets = records.topic_partition, pa.array(records.offsets)
            prefix = f"{tp.topic}-{tp.partition}-"
            return pc.binary_join_element_wise(prefix, offsets.cast(pa.string()), "")
        keys = records.keys.to_pylist()
        return pa.array([sha256(key).hexdigest()[:_HASH_DIGITS] for key in keys], pa.string())
