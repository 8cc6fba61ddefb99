"""An example of a step that is a function: adds the domain of a mail address as a column.

Use it in a group with typed columns like this::

    decode: {format: Json, columns: [{name: mail, type: String}]}
    transforms: [{use: "examples.plugins.domains:mail_domain", options: {field: mail}}]
"""

import pyarrow as pa
import pyarrow.compute as pc


def mail_domain(batch: pa.RecordBatch, field: str) -> pa.RecordBatch:
    """Add the column ``domain``; reject text that is no address, and leave out rows without one."""
    batch = batch.filter(pc.is_valid(batch.column(field)))
    parts = pc.extract_regex(batch.column(field), "^[^@]+@(?P<domain>[^@]+)$")
    domain = pc.struct_field(parts, "domain")
    error = pc.if_else(
        pc.is_null(parts), pa.scalar("no mail address"), pa.scalar(None, pa.string())
    )
    return batch.append_column("domain", domain).append_column("_error", error)
