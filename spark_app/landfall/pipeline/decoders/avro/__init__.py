"""Reads Avro by columns: each field of all records at once, with NumPy and Arrow.

``schema`` parses schemas, and ``plan`` compiles them to nodes, which ``node`` describes;
``scalars``, ``decimals`` and ``nested`` are the nodes, ``leaves`` chooses among the first two,
``blocks`` finds the items of arrays, ``defaults`` makes values of defaults. A node moves a
``cursor`` along, and never beyond the end of a record. ``reading`` reads all rows of one schema,
``values`` makes of them what the later stages want, and ``rows`` sorts rows by their schemas, whose
parts ``parts`` puts together again.

What holds: a row is exactly one value of its schema, from its first byte to its last, or it is
rejected with a reason. No row can make another one wrong. Memory and time are bounded by the bytes
there are, with ``node.MAX_LEVELS`` and ``node.MAX_EMPTY_ITEMS`` for what takes none. A field that
is not wanted is skipped: its length is checked, and not whether its text is UTF-8.

JSON of a value: records and maps are objects, arrays arrays, enums and strings text, int, long,
float, double and boolean themselves; bytes and fixed text of the code points 0 to 255; null null.
So far this is the specification's ("JSON Encoding"). Different are, so that JSON tools can read it:
a union of one type and null is the plain value; a union of several types is an object with the
type as its member (``{"long": 7}``), named types without their namespace; a decimal is text with
all its digits, a UUID text; NaN and the infinities are ``"NaN"``, ``"Infinity"``, ``"-Infinity"``.
Dates and times are their numbers, as in the specification. With ``decode.values: Common`` bytes,
dates and times have the JSON of ``landfall.pipeline.common_values``.

Source: Apache Avro 1.12 specification.
"""
